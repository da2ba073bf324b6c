#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# consumer.sh BUILD CMAKE CC -- installs the build to a scratch prefix, moves that, and builds and
# runs consumer/ against it: with pkg-config and find_package, shared and static.
set -eu
build=$1 cmake=$2 cc=$3
source=$(cd "$(dirname "$0")" && pwd)/consumer
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$cmake" --install "$build" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix
pc=$(find "$prefix" -name tarn.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="${pc%/*}" LD_LIBRARY_PATH="$libdir"

run() { # name, program
    printf '%-22s ' "$1"
    "$2"
}

cflags=$(pkg-config --cflags tarn)
$cc "$source/main.c" $cflags $(pkg-config --libs tarn) -o "$scratch/shared"
run 'pkg-config, shared' "$scratch/shared"
$cc "$source/main.c" $cflags "$libdir/libtarn.a" \
    $(pkg-config --static --libs tarn | sed 's/-ltarn//') -o "$scratch/static"
unset LD_LIBRARY_PATH
run 'pkg-config, static' "$scratch/static"

"$cmake" -S "$source" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    >/dev/null
"$cmake" --build "$scratch/build" >/dev/null
run 'find_package, shared' "$scratch/build/shared"
run 'find_package, static' "$scratch/build/static"

for installed in libtarn_sim.so libtarn.so.0; do
    [ -e "$libdir/$installed" ] || { echo "$installed was not installed"; exit 1; }
done
