#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# coverage.sh [--report] [REGEX] -- builds with gcov, runs the suites (those whose label matches REGEX,
# where one is given), and prints the lines of src, without the simulator, that ran. Fails when a line
# did not that has no reason in uncovered.txt, and when a reason there is for no such line.
# --report: builds and runs nothing.
set -eu
cd "$(dirname "$0")/../.."
export LC_ALL=C
build=build/coverage
report=
if [ "${1:-}" = --report ]; then
    report=1
    shift
fi
labels=${1:-'^(unit|api|fault|model|stress)$'}
GCOV=${GCOV:-gcov}

if [ -z "$report" ]; then
    cmake --preset coverage >/dev/null
    cmake --build --preset coverage
    find "$build" -name '*.gcda' -exec rm -f {} +
    ctest --preset coverage -L "$labels"
fi

# Each source is compiled twice, for the library and for tests of its inside: gcov prints both, and
# every line counts where it ran most.
root=$(pwd)
find "$build/src" -name '*.gcno' ! -path '*/tarn_sim.dir/*' | sort |
    sed 's/\.gcno$/.gcda/' >"$build/counted.txt"
[ -s "$build/counted.txt" ] || { echo 'nothing was counted; run without --report'; exit 1; }
cd "$build"
sed "s|^$build/||" counted.txt | xargs "$GCOV" --stdout --preserve-paths 2>/dev/null |
    awk -f "$root/tests/coverage/coverage.awk" -v root="$root/" "$root/tests/coverage/uncovered.txt" -
