#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# versions.sh INCLUDE LIBDIR CC -- programs of the version before a field was added, of this one, and of one that
# has a field more, with this library. Their headers are made of ours: versions.py takes the last field off every
# struct that begins with its size, or adds one. versions.c is each program. It must name every such struct, and
# each struct must be smaller without its last field: one in what was padding is no new size.
set -eu
include=$1 libdir=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

run() { # version, its include folder
    "$cc" -std=c17 -Wall -Wextra -Werror -I"$2" -DVERSION_"$1" "$here/versions.c" -o "$scratch/$1.out" \
        -L"$libdir" -ltarn -Wl,-rpath,"$libdir"
    TARN_DRIVER=$libdir/libtarn_sim.so "$scratch/$1.out" >"$scratch/$1.sizes" || {
        echo "the $1 program has failed"
        failures=$((failures + 1))
    }
}

for version in older newer; do
    python3 "$here/versions.py" "$version" "$include" "$scratch/$version" >"$scratch/structs"
    run "$version" "$scratch/$version"
done
run same "$include"
while read -r name; do
    sizes=
    for version in older same newer; do
        sizes="$sizes $(sed -n "s/^$name //p" "$scratch/$version.sizes")"
    done
    set -- $sizes
    [ $# = 3 ] || { echo "versions.c does not look at $name"; failures=$((failures + 1)); continue; }
    echo "$name:$sizes bytes"
    [ "$1" -lt "$2" ] && [ "$2" -lt "$3" ] || {
        echo "$name does not grow with each field: its last one stands in padding"
        failures=$((failures + 1))
    }
done <"$scratch/structs"
[ -s "$scratch/structs" ] || { echo "no struct begins with its size"; exit 1; }
[ "$failures" = 0 ]
