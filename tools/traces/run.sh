#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything about recorded traces on a machine with a GPU and PyTorch: records or unpacks those that are not there
# yet, replays all on Tarn, on the driver's allocator and on PyTorch's, and says what is met:
#   tools/traces/run.sh [--record] [BUILD [TRACES [REPORTS]]]      build/release, BUILD/traces and BUILD/reports
# Of the programs whose shapes change the repository's traces are unpacked; with --record they are recorded.
# BUILD has tarn_bench. The player for PyTorch is TORCH_TRACE, or is built where it is not there yet. Figures are
# appended to REPORTS/traces.jsonl.
set -u
tools=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$tools/../.." && pwd)
record=
if [ "${1:-}" = --record ]; then
    record=yes
    shift
fi
build=${1:-$root/build/release}
traces=${2:-$build/traces}
reports=${3:-$build/reports}
player=${TORCH_TRACE:-$root/build/rivals/torch_trace}
traces_a_run=16 # no player takes more
failures=0

expect() {
    "$@" || {
        echo "FAILED (exit $?): $*"
        failures=$((failures + 1))
    }
}

mkdir -p "$reports" "$traces"
expect python3 "$tools/record.py" --missing --out "$traces"
[ -z "$record" ] || expect python3 "$tools/record_programs.py" --missing --out "$traces"
for packed in "$root"/bench/traces/*.columns.xz; do
    name=$(basename "$packed" .columns.xz).trace
    [ -n "$record" ] || [ -f "$traces/$name" ] || expect python3 "$tools/pack.py" unpack "$packed" --to "$traces"
done
[ -x "$player" ] || expect "$root/bench/rivals/build.sh"

# A player that was built elsewhere finds the libraries of this machine's PyTorch.
libraries=$(python3 - <<'END'
import glob, importlib.util, os
found = importlib.util.find_spec("torch")
if found:
    folder = found.submodule_search_locations[0]
    libraries = glob.glob(os.path.join(os.path.dirname(folder), "nvidia", "*", "lib"))
    print(":".join([os.path.join(folder, "lib")] + libraries + ["/usr/local/cuda/lib64"]))
END
)

# replay --trace FILE...: on all allocators.
replay() {
    expect env TARN_DRIVER=cuda "$build/bin/tarn_bench" --row recorded "$@" --out "$reports/traces.jsonl"
    expect env LD_LIBRARY_PATH="$libraries" "$player" --only-traces "$@" --out "$reports/traces.jsonl"
    expect env LD_LIBRARY_PATH="$libraries" "$player" --only-traces --expandable "$@" --out "$reports/traces.jsonl"
}

set --
for trace in "$traces"/*.trace; do
    [ -f "$trace" ] && set -- "$@" --trace "$trace"
    [ $# -lt $((2 * traces_a_run)) ] || {
        replay "$@"
        set --
    }
done
[ $# -eq 0 ] || replay "$@"
expect python3 "$tools/compare.py" "$reports/traces.jsonl" --traces "$traces"
[ "$failures" -eq 0 ]
