# SPDX-License-Identifier: Apache-2.0
# contracts.awk -- reads the sources of folders whose functions state what must hold. Each folder has at least one
# assertion for two functions; struct tarn_pool has at most 35 fields, those of debug builds not counted. Few
# functions, as snippets have, prove nothing.
function code_of(line,    code, at, end) {
    code = ""
    while (line != "") {
        if (in_comment) {
            at = index(line, "*/")
            if (at == 0)
                return code
            in_comment = 0
            line = substr(line, at + 2)
            continue
        }
        at = index(line, "/*")
        end = index(line, "//")
        if (end > 0 && (at == 0 || end < at))
            return code substr(line, 1, end - 1)
        if (at == 0)
            return code line
        code = code substr(line, 1, at - 1)
        in_comment = 1
        line = substr(line, at + 2)
    }
    return code
}
FNR == 1 {
    folder = FILENAME
    sub(/\/[^\/]*$/, "", folder)
    if (!(folder in first))
        first[folder] = FILENAME
    in_comment = in_pool = depth = debug = 0
    if (FILENAME == "src/pools/pool.h")
        read_pool = FILENAME
}
{ code = code_of($0) }
code ~ /^\{/ { functions[folder]++ }
{ assertions[folder] += gsub(/TN_ASSERT\(/, "&", code) }
# Fields: what ends with a semicolon or a comma between braces of the struct's own depth.
code ~ /struct tarn_pool([ \t]*\{|$)/ && code !~ /[;*]/ && !in_pool {
    in_pool = FNR
    found_pool = 1
    sub(/.*struct tarn_pool/, "", code)
}
in_pool && /^#if TARN_DEBUG_CHECKS/ { debug = 1 }
in_pool && /^#(else|endif)/ { debug = 0 }
in_pool && !/^#/ {
    for (i = 1; i <= length(code); i++) {
        letter = substr(code, i, 1)
        if (letter == "{" || letter == "(")
            depth++
        else if (letter == "}" || letter == ")")
            depth--
        else if (depth == 1 && !debug && (letter == ";" || letter == ","))
            fields++
        if (letter == "}" && depth == 0) {
            if (fields > 35)
                print FILENAME ":" in_pool ": struct tarn_pool has " fields " fields, more than 35"
            in_pool = 0
            break
        }
    }
}
END {
    if (read_pool != "" && !found_pool)
        print read_pool ":1: has no struct tarn_pool, whose fields are counted"
    for (folder in functions)
        if (functions[folder] >= 10 && 2 * assertions[folder] < functions[folder])
            print first[folder] ":1: " folder " has " assertions[folder] + 0 " assertions in " functions[folder] \
                " functions, fewer than one for two"
}
