#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything about recorded traces on a machine with a GPU and PyTorch: records those that are not there yet,
# replays all on Tarn, on the driver's allocator and on PyTorch's, and says what is met:
#   tools/traces/run.sh [BUILD [TRACES [REPORTS]]]      build/release, bench/traces and BUILD/reports
# BUILD has tarn_bench. The player for PyTorch is built where it is not there yet. Figures are appended to
# REPORTS/traces.jsonl.
set -u
tools=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$tools/../.." && pwd)
build=${1:-$root/build/release}
traces=${2:-$root/bench/traces}
reports=${3:-$build/reports}
player=$root/build/rivals/torch_trace
failures=0

expect() {
    "$@" || {
        echo "FAILED (exit $?): $*"
        failures=$((failures + 1))
    }
}

mkdir -p "$reports" "$traces"
missing=
for name in training diffusion decode; do
    [ -f "$traces/$name.trace" ] || missing="$missing --only $name"
done
[ -z "$missing" ] || expect python3 "$tools/record.py" --out "$traces" $missing
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

set --
for trace in "$traces"/*.trace; do
    [ -f "$trace" ] && set -- "$@" --trace "$trace"
done
if [ $# -eq 0 ]; then
    echo "no trace in $traces"
    exit 1
fi
expect env TARN_DRIVER=cuda "$build/bin/tarn_bench" --row recorded "$@" --out "$reports/traces.jsonl"
expect env LD_LIBRARY_PATH="$libraries" "$player" --only-traces "$@" --out "$reports/traces.jsonl"
expect env LD_LIBRARY_PATH="$libraries" "$player" --only-traces --expandable "$@" --out "$reports/traces.jsonl"
expect python3 "$tools/compare.py" "$reports/traces.jsonl"
[ "$failures" -eq 0 ]
