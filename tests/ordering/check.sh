#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh MODEL CC -- has Spin look at every run of a model: none may fail. Then the same without each of the orders that
# the model names as DROP_...: each must fail, or the model says nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
name=$1 cc=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$here"/*.pml "$scratch"
cd "$scratch"

# holds [-DDROP]: status 0: no run fails; 1: one does.
holds() {
    spin -a "$@" "$name.pml" >log 2>&1 && $cc -O1 -w -DSAFETY -DVECTORSZ=2048 -o pan pan.c && ./pan -m100000 >log 2>&1 || {
        cat log
        exit 2
    }
    if grep -q 'max search depth too small' log; then
        cat log
        exit 2
    fi
    grep -q 'errors: 0' log
}

if ! holds; then
    echo "$name: a run fails"
    grep 'pan:' log
    exit 1
fi
echo "$name: no run fails, of $(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' log) states"
failures=0
for drop in $(grep -ohE '#(ifdef|ifndef) DROP_[A-Z]+' "$name.pml" | sed 's/.* //' | sort -u); do
    if holds "-D$drop"; then
        echo "$name: nothing fails with $drop"
        failures=1
    else
        echo "$name: $drop fails, as it must: $(sed -n 's/^pan:[0-9]*: \(.*\) (at.*/\1/p' log)"
    fi
done
exit $failures
