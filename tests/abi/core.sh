#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# core.sh INCLUDE SAMPLES -- tarn/core.h has fifteen functions, and is all of Tarn that three samples need, in so
# many lines of code.
set -eu
include=$1 samples=$2
failures=0

fail() {
    echo "$1"
    failures=$((failures + 1))
}

functions=$(grep -c '^TARN_API' "$include/tarn/core.h")
[ "$functions" -eq 15 ] || fail "core.h has $functions functions, not 15"

sample() { # FILE LINES: at most so many that are neither empty nor a comment
    file=$samples/$1
    others=$(grep '^#include "tarn/' "$file" | grep -v '"tarn/core.h"' || true)
    [ -z "$others" ] || fail "$1 includes more of Tarn: $others"
    lines=$(grep -vE '^ *(//|/?\*)' "$file" | grep -c '[^ ]')
    echo "$1: $lines lines"
    [ "$lines" -le "$2" ] || fail "$1 has $lines lines, at most $2"
}
sample 08_inference.c 45
sample 09_training.c 40
sample 10_server.c 65
[ "$failures" = 0 ]
