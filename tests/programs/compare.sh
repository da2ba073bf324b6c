#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program and compares what it prints with what is expected.
#   compare.sh PROGRAM [DRIVER]
# DRIVER is a library that stands in for libcuda.so.1, through a link of that name; without it the
# program finds the machine's own. The expected text is expected/NAME.txt beside this file.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ $# -gt 1 ]; then
    ln -s "$2" "$scratch/libcuda.so.1"
    LD_LIBRARY_PATH=$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
fi
status=0
"$1" >"$scratch/printed" || status=$?
diff "$here/expected/$(basename "$1").txt" "$scratch/printed" || status=1
echo "$(basename "$1"): $(wc -l <"$scratch/printed") lines, exit status $status"
exit $status
