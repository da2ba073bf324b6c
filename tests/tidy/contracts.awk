# SPDX-License-Identifier: Apache-2.0
# contracts.awk -- reads the sources of folders whose functions state what must hold. A folder of ten functions or
# more has at least one assertion for two functions, in each folder for itself; struct tarn_pool has at most
# 35 fields, those of debug builds not counted.
FNR == 1 {
    folder = FILENAME
    sub(/\/[^\/]*$/, "", folder)
    if (!(folder in first))
        first[folder] = FILENAME
    in_pool = debug = 0
}
/^\{/ { functions[folder]++ }
/TN_ASSERT\(/ { assertions[folder] += gsub(/TN_ASSERT\(/, "&") }
/^struct tarn_pool \{/ {
    in_pool = FNR
    next
}
in_pool && /^#if/ { debug = 1 }
in_pool && /^#endif/ { debug = 0 }
in_pool && /^\};/ {
    if (fields > 35)
        print FILENAME ":" in_pool ": struct tarn_pool has " fields " fields, more than 35"
    in_pool = 0
}
in_pool && !debug {
    code = $0
    gsub(/\/\*.*/, "", code)
    fields += gsub(/;/, ";", code)
}
END {
    for (folder in functions)
        if (functions[folder] >= 10 && 2 * assertions[folder] < functions[folder])
            print first[folder] ":1: " folder " has " assertions[folder] + 0 " assertions in " functions[folder] \
                " functions, fewer than one for two"
}
