#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# exception.sh CXX INCLUDE LIBDIR -- a C++ exception out of a callback ends the process, with the library's sentence.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" -std=c++17 -I"$2" "$here/exception.cpp" -o "$scratch/exception" -L"$3" -ltarn -Wl,-rpath,"$3"
result=0
TARN_DRIVER=$3/libtarn_sim.so "$scratch/exception" >"$scratch/out" 2>&1 || result=$?
cat "$scratch/out"
[ "$result" = 134 ] || { echo "exit status $result, not that of abort()"; exit 1; }
grep -q '^tarn: a free-memory callback was left by an exception' "$scratch/out"
