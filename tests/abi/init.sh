#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# init.sh INCLUDE CC CXX -- compiles init.c as C17, C++11 and C++17 without a warning, and runs it. It must try every
# INIT macro of the headers, and every struct that begins with its size must have one.
set -eu
include=$1 cc=$2 cxx=$3
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
warnings='-Wall -Wextra -Wpedantic -Wmissing-field-initializers -Werror'
failures=0

try() { # language, standard, compiler
    if ! $3 -x "$1" -std="$2" $warnings -I"$include" "$here/init.c" -o "$scratch/init" || ! "$scratch/init"; then
        echo "the INIT macros fail as $2"
        failures=$((failures + 1))
    fi
}
try c c17 "$cc"
try c++ c++11 "$cxx"
try c++ c++17 "$cxx"

structs=$(awk '/^typedef struct tarn_[a-z_]* \{/ { name = $3 }
    name != "" && /^    size_t size;/ { print name }
    /^    [a-z].*;|^\}/ { name = "" }' "$include"/tarn/*.h)
for struct in $structs; do
    init=$(echo "$struct" | tr '[:lower:]' '[:upper:]')_INIT
    grep -q "TRY($struct, $init)" "$here/init.c" || {
        echo "$struct: init.c does not try $init"
        failures=$((failures + 1))
    }
done
echo "$(echo "$structs" | wc -w) structs, $failures failures"
[ -n "$structs" ] && [ "$failures" = 0 ]
