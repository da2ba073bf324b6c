#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one case on the simulator that TARN_DRIVER names.
#   case.sh PROGRAM GROUP/NAME
# PROGRAM is tarn_contract. Prints the case's line, and the expected one where that is another. Exit
# status 0: it is the expected one. 1: it is not. 2: there is no such case, or none is expected.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TARN_SIM_STRICT=0 "$1" "$2" >"$scratch/output" || true
"$here/lines.sh" "$scratch/output" >"$scratch/lines"
"$here/lines.sh" sim >"$scratch/expected"
if ! got=$(grep -F " $2 | " "$scratch/lines"); then
    echo "$2 did not run"
    exit 2
elif ! expected=$(grep -F " $2 | " "$scratch/expected"); then
    echo "$2 is not recorded"
    exit 2
fi
echo "$got"
[ "$got" = "$expected" ] && exit 0
echo "expected: $expected"
exit 1
