#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzzers with libFuzzer, and keeps what shows something new. Needs Clang with its run-time libraries.
#   tests/fuzz/run.sh [SECONDS [NAME...]]      of each target, 60 if not told; all of them
# The stored inputs of a target, tests/fuzz/corpus/NAME.inputs.xz, are the beginning. Afterwards they are written
# anew: those that were there, and the fewest others that libFuzzer finds to show every edge that was seen. An
# input that fails is left in build/libfuzzer/found. Exit status 0: none failed.
#
#   tests/fuzz/run.sh fewest NAME...           fuzzes nothing, and leaves stored inputs out
# The fewest stay that show every edge to libFuzzer, and those that show the fuzzer of preset fuzz a new step. What
# either sees of all is printed before and after; it differs by some edges from run to run, for there are threads.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- command conf costs handles history model ptx settings share trace
build=$root/build/libfuzzer
cd "$root"
cmake --preset libfuzzer >/dev/null
cmake --build --preset libfuzzer >/dev/null
found=$build/found
mkdir -p "$found"
export TARN_DRIVER="$build/lib/libtarn_sim.so"
export UBSAN_OPTIONS=print_stacktrace=1
failures=0

# The stored inputs of the target, in a folder; and a folder in their place.
unpack() {
    xz -dc "$root/tests/fuzz/corpus/$name.inputs.xz" >"$work/inputs"
    "$build/bin/fuzz_pack" unpack "$work/inputs" "$1" "$name" >/dev/null
}

pack() {
    "$build/bin/fuzz_pack" pack "$work/inputs" "$1"
    xz -9ec "$work/inputs" >"$root/tests/fuzz/corpus/$name.inputs.xz"
}

# Prints what the two fuzzers see of the inputs in a folder.
seen() {
    printf '%s: %s, %s edges\n' "$name" \
        "$(TARN_DRIVER=$root/build/fuzz/lib/libtarn_sim.so nice -n 19 "$root/build/fuzz/bin/fuzz_$name" "$1" | sed 1q)" \
        "$(nice -n 19 "$build/bin/fuzz_$name" -runs=0 "$1" 2>&1 | sed -n 's/.*DONE *cov: \([0-9]*\).*/\1/p')"
}

leave_fewest() {
    cmake --preset fuzz >/dev/null
    cmake --build --preset fuzz >/dev/null
    work=$build/fewest/$name
    rm -rf "$work"
    mkdir -p "$work/all" "$work/few"
    unpack "$work/all"
    seen "$work/all"
    nice -n 19 "$build/bin/fuzz_$name" -merge=1 -use_counters=0 -max_len=3604 \
        "$work/few" "$work/all" >"$work/merge.log" 2>&1
    TARN_DRIVER=$root/build/fuzz/lib/libtarn_sim.so nice -n 19 \
        "$root/build/fuzz/bin/fuzz_$name" "$work/all" -out="$work/few" >/dev/null
    pack "$work/few"
    seen "$work/few"
}

if [ "$seconds" = fewest ]; then
    for name; do
        leave_fewest
    done
    exit 0
fi

for name; do
    work=$build/corpus/$name
    rm -rf "$work"
    mkdir -p "$work/old" "$work/new" "$work/merged"
    unpack "$work/old"
    if ! nice -n 19 "$build/bin/fuzz_$name" "$work/new" "$work/old" -max_len=3604 \
        -max_total_time="$seconds" -artifact_prefix="$found/$name-" >"$work/log" 2>&1; then
        tail -n 40 "$work/log"
        echo "FAILED $name: see $work/log, and the input in $found"
        failures=$((failures + 1))
        continue
    fi
    # By edges alone, not by how often each was passed: a fifth of the inputs, for the same lines.
    cp -R "$work/old/." "$work/merged"
    nice -n 19 "$build/bin/fuzz_$name" -merge=1 -use_counters=0 -max_len=3604 \
        "$work/merged" "$work/new" >"$work/merge.log" 2>&1
    printf '%s: ' "$name"
    pack "$work/merged"
done
exit $((failures > 0))
