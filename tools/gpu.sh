#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU shows, from a build of the gpu preset, which may have been made on
# another machine and copied: it needs no Check and no compiler, and of the toolkit compute-sanitizer alone,
# on the path or in /usr/local/cuda/bin. Where that is not installed nothing is proven of what it would have
# found: a failure.
#   tools/gpu.sh [BUILD [REPORTS]]      build/gpu and BUILD/reports
# Where BUILD does not exist the preset is built first. Nothing else may use the GPU meanwhile: suites count its free
# memory, and benchmarks its time.
# Exit status 0: every suite, sample and comparison passed, but for the suite of peers where there is one GPU.
set -u
if [ ! -d "${1:-build/gpu}" ]; then
    cmake --preset gpu && cmake --build --preset gpu || exit 1
fi
build=$(cd "${1:-build/gpu}" && pwd)
reports=${2:-$build/reports}
tools=$(cd "$(dirname "$0")" && pwd)
export CK_FORK=no TARN_DRIVER=cuda
failures=0
mkdir -p "$reports"

heading() {
    printf '\n==== %s ====\n' "$1"
}

# expect NAME COMMAND...: runs it, keeps its output, counts a failure. Only the suite of
# peers may be skipped (exit status 77): it needs a second GPU.
expect() {
    name=$1
    shift
    "$@" >"$reports/$name.log" 2>&1
    result=$?
    if [ "$result" -eq 0 ]; then
        printf 'passed  %s: %s\n' "$name" "$(tail -n 1 "$reports/$name.log")"
    elif [ "$result" -eq 77 ] && { [ "$name" = gpu_peers ] || [ "$name" = memcheck_gpu_peers ]; }; then
        printf 'skipped %s: %s\n' "$name" "$(tail -n 1 "$reports/$name.log")"
    else
        printf 'FAILED  %s (exit %s)\n' "$name" "$result"
        tail -n 15 "$reports/$name.log"
        failures=$((failures + 1))
    fi
}

heading 'suites on the real driver'
for suite in "$build"/bin/gpu_* "$build"/bin/planted_*; do
    expect "$(basename "$suite")" "$suite"
done

heading 'samples on the real driver'
for sample in "$build"/bin/[0-9]*_* "$build/bin/demo"; do
    expect "$(basename "$sample")" "$sample"
done

heading "the driver's contract, and its lines against those of an H200"
contract=$tools/../tests/contract
expect contract sh -c '"$1" >"$2"' sh "$build/bin/tarn_contract" "$reports/contract.txt"
expect contract_lines "$contract/compare.sh" "$reports/contract.txt" h200

heading 'programs that know the driver alone, against what they must print'
for program in "$build"/bin/programs/*; do
    expect "program_$(basename "$program")" "$tools/../tests/programs/compare.sh" "$program"
done

heading "the demo's driver calls on the simulator and here"
expect record_sim "$tools/record_demo.sh" "$build" "$build/lib/libtarn_sim.so" "$reports/demo.sim"
expect record_cuda "$tools/record_demo.sh" "$build" cuda "$reports/demo.cuda"
expect calls_equal diff "$reports/demo.sim" "$reports/demo.cuda"

heading "the simulator's account of driver time and the time here"
rm -f "$reports/costs.sim.jsonl" "$reports/costs.cuda.jsonl"
expect costs_sim env TARN_DRIVER="$build/lib/libtarn_sim.so" TARN_SIM_COSTS=h200 \
    TARN_SIM_MEMORY_MIB=32768 "$build/bin/tarn_bench" --row growth --row capture \
    --out "$reports/costs.sim.jsonl"
expect costs_cuda env TARN_DRIVER="$build/lib/libtarn_record.so" TARN_RECORD_DRIVER=cuda \
    "$build/bin/tarn_bench" --row growth --row capture --out "$reports/costs.cuda.jsonl"
expect costs "$tools/costs.sh" "$reports/costs.sim.jsonl" "$reports/costs.cuda.jsonl"

heading 'benchmarks: the figures are in bench.jsonl; limits that are missed or not measured fail'
rm -f "$reports/bench.jsonl"
expect bench "$build/bin/tarn_bench" --limits --out "$reports/bench.jsonl"

heading 'compute-sanitizer'
if sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null); then
    # Suites make calls that the driver must refuse, so refused calls are not counted as errors.
    for program in "$build"/bin/gpu_* "$build"/bin/planted_* "$build/bin/demo"; do
        expect "memcheck_$(basename "$program")" "$sanitizer" --tool memcheck --error-exitcode 9 \
            --report-api-errors no "$program"
    done
    expect racecheck_demo "$sanitizer" --tool racecheck --error-exitcode 9 "$build/bin/demo"
    expect initcheck_demo "$sanitizer" --tool initcheck --error-exitcode 9 "$build/bin/demo"
    expect overruns "$tools/../tests/planted/overruns.py" --log "$reports/overruns" \
        "$build/bin/overrun_access" "$sanitizer" --nvtx yes --report-api-errors no
else
    echo 'FAILED  compute-sanitizer: not installed'
    failures=$((failures + 1))
fi

printf '\n%s failures; logs in %s\n' "$failures" "$reports"
[ "$failures" = 0 ]
