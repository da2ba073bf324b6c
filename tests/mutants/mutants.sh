#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Breaks one rule at a time, and sees the case that is named for it fail.
#   mutants.sh [PATCH...]     all of tests/mutants/*.patch
# A patch begins with lines that git apply passes over:
#   Breaks: what no longer holds, in words
#   Caught-by: EXECUTABLE CASE     a case of the contract (tarn_contract group/name), or of a suite
#                                  (unit_gpu, sim, ...: the name of the test)
# Each patch is applied to a copy of the sources in build/mutants, built, and the executable must say
# that the named case fails; on the sources as they are, it must say that the case passes.
# Exit status 0: every mutant was caught by the case named for it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$root/build/mutants
[ $# -gt 0 ] || set -- "$root"/tests/mutants/*.patch
failures=0

# The copy: what git tracks, as it is in the working tree. Only what differs is copied, so that only
# what differs is built again.
mkdir -p "$work/source"
(cd "$root" && git ls-files -co --exclude-standard) | while read -r file; do
    [ -e "$root/$file" ] || continue
    cmp -s "$root/$file" "$work/source/$file" && continue
    mkdir -p "$(dirname "$work/source/$file")"
    cp "$root/$file" "$work/source/$file"
done
cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DTARN_DEBUG_CHECKS=ON \
    -DTARN_SAMPLES=OFF -DTARN_BENCH=OFF >"$work/configure.log" 2>&1 || {
    cat "$work/configure.log"
    exit 1
}

build() {
    cmake --build "$work/build" --target tarn_sim "$1" >"$work/build.log" 2>&1 || {
        tail -n 20 "$work/build.log"
        return 1
    }
}

# The copy lies inside a repository, which git is not to find.
apply() {
    (cd "$work/source" && GIT_CEILING_DIRECTORIES=$work git apply --unidiff-zero "$@")
}

# fails EXECUTABLE CASE: whether that case fails now. Status 2: it did not run, which counts as no
# failure. The executable's own status is of all its cases, and says nothing about this one.
fails() {
    TARN_DRIVER=$work/build/lib/libtarn_sim.so
    export TARN_DRIVER
    if [ "$1" = tarn_contract ]; then
        # The simulator's line of the case is another one: what it found, or whether it holds.
        answers=0
        "$root/tests/contract/case.sh" "$work/build/bin/tarn_contract" "$2" >"$work/run.log" 2>&1 || answers=$?
        [ $answers != 2 ] || return 2
        [ $answers != 0 ]
    else
        # CK_VERBOSE names every test that ran: "...:P:case:name:0: Passed".
        CK_VERBOSITY=verbose "$work/build/bin/$1" >"$work/run.log" 2>&1 || true
        grep -qE ":[PFE]:[^:]*:$2:" "$work/run.log" || return 2
        grep -qE ":[FE]:[^:]*:$2:" "$work/run.log"
    fi
}

for patch in "$@"; do
    name=$(basename "$patch" .patch)
    rule=$(sed -n 's/^Breaks: //p' "$patch")
    caught=$(sed -n 's/^Caught-by: //p' "$patch")
    executable=${caught%% *}
    case=${caught#* }
    verdict=caught
    build "$executable" || exit 1
    status=0
    fails "$executable" "$case" || status=$?
    if [ $status = 0 ]; then
        verdict='FAILS WITHOUT THE PATCH'
    elif [ $status = 2 ]; then
        verdict='NO SUCH CASE'
    elif ! apply "$(realpath "$patch")" 2>"$work/apply.log"; then
        verdict='DOES NOT APPLY'
    else
        if ! build "$executable"; then
            verdict='DOES NOT BUILD'
        elif ! fails "$executable" "$case"; then
            verdict=SURVIVES
        fi
        apply -R "$(realpath "$patch")"
    fi
    printf '%-10s %s: %s [%s]\n' "$verdict" "$name" "$rule" "$caught"
    [ "$verdict" = caught ] || failures=$((failures + 1))
done
printf '%d mutants, %d not caught\n' $# $failures
[ $failures = 0 ]
