#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All that takes long, with fresh seeds: hours on two cores. Each step is done whatever became of those before it;
# the exit status is 1 where one failed. docs/testing.md says when this is run.
#   TARN_FRESH_SEED=number    the seeds of an earlier run, which has printed the number
#   TARN_FUZZ_SECONDS=300     how long each fuzzer runs
#   TARN_NIGHTLY_STEPS=regex  the steps whose names match, and no others
set -uo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh ci || exit 1
export TARN_NO_SETUP=1
export TARN_FRESH_SEED=${TARN_FRESH_SEED:-$(date +%s)}
failed=()
count=0
start=$SECONDS

step() { # NAME COMMAND...
    local name=$1
    shift
    [[ $name =~ ${TARN_NIGHTLY_STEPS:-.} ]] || return 0
    count=$((count + 1))
    printf '\n==== %s (%d:%02d) ====\n' "$name" $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60))
    "$@" || failed+=("$name")
}

preset() { # NAME: all its tests
    cmake --preset "$1" && cmake --build --preset "$1" &&
        ctest --test-dir "build/$1" --no-tests=error --output-on-failure -j 2 -LE '^(nightly|gpu)$'
}

nightly_label() {
    cmake --preset dev && cmake --build --preset dev &&
        ctest --test-dir build/dev --no-tests=error --output-on-failure -L '^nightly$' "$@"
}

echo "to repeat: TARN_FRESH_SEED=$TARN_FRESH_SEED make nightly"
for name in dev release asan-ubsan tsan clang; do
    step "$name: all tests" preset "$name"
done
step '10 million steps of the model' nightly_label -R '^model_' -j 8
step 'all pairs of features, and 10,000 kills' nightly_label -E '^model_'
step 'mutants' tests/mutants/mutants.sh
step 'mutants that nobody chose' tools/mutate.sh src/heap src/pools src/graphs src/checkpoint src/vmm \
    --sample 100 --seed "$TARN_FRESH_SEED"
step 'coverage' tests/coverage/coverage.sh
step 'fuzz' tests/fuzz/run.sh "${TARN_FUZZ_SECONDS:-300}"
step 'format' tools/format_check.sh

printf '\n%d steps, %d failed' "$count" "${#failed[@]}"
[ ${#failed[@]} -eq 0 ] || printf '; %s' "${failed[@]}"
echo
echo "to repeat: TARN_FRESH_SEED=$TARN_FRESH_SEED make nightly"
[ "$count" -gt 0 ] && [ ${#failed[@]} -eq 0 ]
