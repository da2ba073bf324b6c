#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh INCLUDE CC CXX -- compiles each public header alone and included twice, as C11, C17,
# C++11 and C++17.
set -eu
include=$1 cc=$2 cxx=$3
warnings='-Wall -Wextra -Wpedantic -Werror'
failures=0

compile() { # language, standard, compiler, header
    if ! printf '#include "%s"\n#include "%s"\n' "$4" "$4" |
        $3 -x "$1" -std="$2" $warnings -I"$include" -fsyntax-only -; then
        echo "$4 does not compile alone as $2"
        failures=$((failures + 1))
    fi
}

count=0
for path in "$include"/tarn/*.h; do
    header=tarn/${path##*/}
    count=$((count + 1))
    compile c c11 "$cc" "$header"
    compile c c17 "$cc" "$header"
    compile c++ c++11 "$cxx" "$header"
    compile c++ c++17 "$cxx" "$header"
done

# What drops a status on purpose warns in no compiler, at no level.
drop() { # language, standard, compiler
    for level in -O0 -O2; do
        if ! printf '#include "tarn/core.h"\nvoid drop(void *a);\nvoid drop(void *a) { TARN_IGNORE(tarn_free(a)); }\n' |
            $3 -x "$1" -std="$2" $level $warnings -Wunused-result -I"$include" -c -o /dev/null -; then
            echo "TARN_IGNORE does not compile as $2 by $3 $level"
            failures=$((failures + 1))
        fi
    done
}
compilers="$cc"
! command -v clang >/dev/null || compilers="$compilers clang"
for compiler in $compilers; do
    drop c c17 "$compiler"
    drop c++ c++17 "$compiler"
done

echo "$count headers, $failures failures"
[ "$failures" = 0 ]
