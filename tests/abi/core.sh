#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# core.sh INCLUDE SAMPLES -- tarn/core.h has fifteen functions, and is all of Tarn that three samples need, in so
# many lines of code. Each judgement is first made of a sample that it must refuse.
set -eu
include=$1 samples=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
    echo "$1"
    failures=$((failures + 1))
}

# fault FILE LINES: what is wrong with a sample, on a line; nothing where all is well. Tarn's headers are included by
# quotes or angle brackets; lines are those that are neither empty nor a comment.
fault() {
    awk -v most="$2" '
        /^[ \t]*#[ \t]*include[ \t]*["<]tarn\// {
            if (/["<]tarn\/core\.h[">]/)
                core = 1
            else
                print "includes more of Tarn: " $0
        }
        !/^[ \t]*(\/\/|\/?\*)/ && /[^ \t]/ { lines += 1 }
        END {
            if (!core)
                print "does not include tarn/core.h"
            if (lines > most)
                print "has " lines " lines, at most " most
        }' "$1"
}

planted() { # WORD LINES TEXT: a sample with that text is refused, with that word
    printf '%b' "$3" >"$scratch/planted.c"
    fault "$scratch/planted.c" "$2" | grep -q "$1" || fail "a planted sample is not refused: $1"
}
planted 'more of Tarn' 9 '#include "tarn/core.h"\n#include "tarn/graph.h"\n'
planted 'more of Tarn' 9 '#include "tarn/core.h"\n# include <tarn/tarn.h>\n'
planted 'does not include' 9 'int main(void);\n'
planted 'at most 2' 2 '#include "tarn/core.h"\n/* one */\n\nint a;\nint b;\n'
printf '#include "tarn/core.h"\n/* one */\n\nint a;\n' >"$scratch/planted.c"
[ -z "$(fault "$scratch/planted.c" 2)" ] || fail 'a right sample is refused'

functions=$(grep -c '^TARN_API' "$include/tarn/core.h")
[ "$functions" -eq 15 ] || fail "core.h has $functions functions, not 15"

sample() { # FILE LINES
    found=$(fault "$samples/$1" "$2")
    [ -z "$found" ] || fail "$1 $found"
}
sample 08_inference.c 45
sample 09_training.c 40
sample 10_server.c 65
echo "$failures failures"
[ "$failures" = 0 ]
