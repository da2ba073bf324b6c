#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# consumer.sh BUILD CMAKE CC -- installs the build to a scratch prefix, moves that, and builds and
# runs consumer/ against it: with pkg-config and find_package, shared and static. Each finds the simulator
# that was installed; a static one as long as nothing was moved, or from a folder of programs beside the
# libraries. Elsewhere it says where it has looked.
set -eu
build=$1 cmake=$2 cc=$3
source=$(cd "$(dirname "$0")" && pwd)/consumer
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$cmake" --install "$build" --prefix "$scratch/first" >/dev/null
libdir=$(dirname "$(find "$scratch/first" -name libtarn.a)")
$cc "$source/main.c" -I"$scratch/first/include" "$libdir/libtarn.a" -pthread -ldl -o "$scratch/early"
printf '%-22s ' 'not moved, static'
TARN_DRIVER=sim "$scratch/early"
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix
pc=$(find "$prefix" -name tarn.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="${pc%/*}" LD_LIBRARY_PATH="$libdir"

run() { # name, program
    printf '%-22s ' "$1"
    TARN_DRIVER=sim "$2"
}

cflags=$(pkg-config --cflags tarn)
$cc "$source/main.c" $cflags $(pkg-config --libs tarn) -o "$scratch/shared"
run 'pkg-config, shared' "$scratch/shared"
$cc "$source/main.c" $cflags "$libdir/libtarn.a" \
    $(pkg-config --static --libs tarn | sed 's/-ltarn//') -o "$scratch/static"
unset LD_LIBRARY_PATH
mkdir -p "$prefix/bin"
cp "$scratch/static" "$prefix/bin/static"
run 'pkg-config, static' "$prefix/bin/static"
mkdir "$scratch/elsewhere"
cp "$scratch/static" "$scratch/elsewhere/static"
if told=$(cd "$scratch/elsewhere" && TARN_DRIVER=sim ./static); then
    echo "a static program found a simulator that was moved away: $told"
    exit 1
fi
case $told in
*'TARN_DRIVER=sim'*) wrong='advises what was tried' ;;
*"$scratch/elsewhere/libtarn_sim.so"*"$scratch/first"*'set TARN_DRIVER to the path'*) wrong= ;;
*) wrong='does not say where it looked' ;;
esac
[ -z "$wrong" ] || { echo "a static program $wrong: $told"; exit 1; }

"$cmake" -S "$source" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    >/dev/null
"$cmake" --build "$scratch/build" >/dev/null
run 'find_package, shared' "$scratch/build/shared"
cp "$scratch/build/static" "$prefix/bin/static"
run 'find_package, static' "$prefix/bin/static"

if [ -e "$build/bin/tarn" ]; then
    printf '%-22s ' 'command'
    "$prefix/bin/tarn" --version
    for installed in man/man1/tarn.1 bash-completion/completions/tarn; do
        [ -e "$prefix/share/$installed" ] || { echo "$installed was not installed"; exit 1; }
    done
fi

for installed in libtarn_sim.so libtarn.so.0.1; do
    [ -e "$libdir/$installed" ] || { echo "$installed was not installed"; exit 1; }
done
