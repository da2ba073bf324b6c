#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# selftest.sh -- shows that tidy.sh fires. A small tree that breaks no rule is clean; with each of
# bad/*.txt written into it there is exactly one violation, and it is the expected one.
#
# The first line of a snippet is the path that it is written to, the second the sentence that is
# expected, and the rest its text.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

write() { # file, line...
    file=$1
    shift
    printf '%s\n' "$@" >"$file"
}

good_tree() {
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree"
    cd "$scratch/tree"
    mkdir -p include/tarn docs command tests/command src/base src/vmm src/sim/core tests/unit tests/api tests/sim tests/tidy
    spdx='// SPDX-License-Identifier: Apache-2.0'
    write include/tarn/thing.h "$spdx" '#include <stddef.h>' '#define TARN_API' \
        'TARN_API int tarn_thing_make(size_t bytes, /* see tarn_other */' '    int flags);'
    write src/vmm/segment.h "$spdx" '/* segment.h' ' *   V1  a segment has a base */' \
        'struct tn_segment_list {' '    int first;' '};'
    write src/vmm/segment.c "$spdx" '#include "vmm/segment.h"' '#include "base/host.h"' \
        '#include <string.h>' '/* Checks V1 and VV1; what cuMemMap and free() do is said elsewhere. */' \
        "int f(void) { return '\"' + tn_host_free(\"/* \\\" free(\") + table->free(1); }"
    write src/base/host.c "$spdx" '#include <stdlib.h>' 'void *f(void) { return malloc(1); }'
    write src/sim/core/a.h "$spdx" '/* a.h' ' *   SA1  an address is known */'
    write src/sim/a.c "$spdx" '#include "tarn/sim.h"' 'void cuMemFree(void *p) { free(p); }'
    # V9 and VV1 are tags of snippets alone.
    write src/sim/other.c "$spdx" '/* Checks SA1 and V9. */'
    write tests/sim/rules.c "$spdx" '/* Breaks SA1, V9 and VV1. */'
    write tests/unit/test_segment.c "$spdx" '/* Breaks V1. */' \
        'int f(void) { return plan("cuMemMap"); }'
    write tests/api/test_thing.c "$spdx" '#include "tarn/thing.h"' \
        'int f(void) { return tarn_thing_make(1, 2); }'
    write command/list.c "$spdx" '#include "base/host.h"' '#include "heap/history.h"' 'int f(void) { return 0; }'
    write command/CMakeLists.txt "# ${spdx#// }" 'set(TARN_COMMAND_SOURCES' 'list.c tell.c)'
    write tests/command/test_list.c "$spdx"
    write src/CMakeLists.txt "# ${spdx#// }" 'set(TARN_SOURCES abi/cuda.h' 'base/host.c' \
        'vmm/segment.c heap/history.c pools/pool.c)' 'set(TARN_SIM_SOURCES sim/a.c sim/other.c)'
    write tests/CMakeLists.txt "# ${spdx#// }" 'F(unit/test_segment.c command/test_list.c api/test_thing.c api/test_lifetimes_all.c)'
    write docs/lifetimes.md '# Lifetimes' '' '| | live | freed |' '| --- | --- | --- |' \
        '| free | goes | `REFUSED` |' '' '## free' '' '- *live*: Goes.' '- *freed*: `REFUSED`.'
    write tests/api/lifetimes.txt '# Tests.' 'free / live: a_block_goes' \
        'free / freed: it_is_gone it_stays_gone'
    write tests/api/test_lifetimes_all.c "$spdx" 'TEST(live, a_block_goes)' \
        'TEST_LOOP(freed, it_is_gone, 0, 2)' 'TEST(freed, it_stays_gone)'
    write src/base/pooled.h "$spdx" '/* pooled.h -- of a pool. */'
    write src/base/named.h "$spdx" '/* named.h -- tn_named. */'
    write ARCHITECTURE.md '# A house' '' '`vmm/segment.c` asks `tn_named`; `tests/api/test_thing.c` does not.' \
        '' '## Words' '' '| word | meaning | file |' '| --- | --- | --- |' \
        '| segment, base | a run of slots | `vmm/segment.h` |' '| pool | segments of one owner | `base/pooled.h` |'
    write tests/tidy/untested.txt 'src/base/host.c: it is all system calls'
}

fail() {
    echo "$1"
    cat "$scratch/output"
    failures=$((failures + 1))
}

good_tree
"$here/tidy.sh" "$scratch/tree" >"$scratch/output" || fail 'the good tree is not clean:'

count=0
for snippet in "$here"/bad/*.txt; do
    good_tree
    path=$(sed -n 1p "$snippet")
    expected=$(sed -n 2p "$snippet")
    mkdir -p "$(dirname "$path")"
    sed 1,2d "$snippet" >"$path"
    if "$here/tidy.sh" "$scratch/tree" >"$scratch/output"; then
        fail "${snippet##*/} was not caught:"
    elif [ "$(sed '$d' "$scratch/output")" != "$expected" ]; then
        fail "${snippet##*/} should give: $expected"
    fi
    count=$((count + 1))
done

# Too long to keep as snippets. Writes so many lines more to the file; then what is found begins so,
# or is nothing where that is empty.
lengthen() { # file, lines, line, expected
    awk -v count="$2" -v line="$3" 'BEGIN { while (count-- > 0) print line }' >>"$1"
    "$here/tidy.sh" "$scratch/tree" >"$scratch/output" || :
    found=$(sed '$d' "$scratch/output")
    case "$4:$found" in
    :) return ;;
    ?*:"$4"*) [ "$(printf '%s\n' "$found" | wc -l)" -eq 1 ] && return ;;
    esac
    fail "$1 with $2 lines more should give: $4"
}
good_tree
lengthen tests/api/test_thing.c 697 'int x;' ''
lengthen tests/api/test_thing.c 1 'int x;' 'tests/api/test_thing.c:701: is longer than 700 lines'
good_tree
lengthen src/base/host.c 597 'int x;' ''
lengthen src/base/host.c 1 'int x;' 'src/base/host.c:601: is longer than 600 lines'
write tests/tidy/long.txt 'src/base/host.c:'
lengthen src/base/host.c 0 '' 'src/base/host.c:601: is longer than 600 lines'
write tests/tidy/long.txt 'src/base/host.c: it is one table'
lengthen src/base/host.c 0 '' ''
good_tree
head -c 12400000 /dev/zero >docs/picture
lengthen docs/picture 0 '' ''
head -c 100000 /dev/zero >>docs/picture
lengthen docs/picture 0 '' 'bench:1: the tree has 125'
good_tree
lengthen ARCHITECTURE.md 300 '| --- | --- | --- |' ''
good_tree
awk 'BEGIN { for (i = 0; i < 193; i++) print "" }' | cat - ARCHITECTURE.md >"$scratch/page"
cp "$scratch/page" ARCHITECTURE.md
lengthen ARCHITECTURE.md 1 'a line' ''
lengthen ARCHITECTURE.md 1 'a line' 'ARCHITECTURE.md:205: has more than 200 lines'

echo "$count snippets, $failures failures"
[ "$failures" -eq 0 ]
