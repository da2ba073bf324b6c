#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays traces on the simulator and holds Tarn's memory against what was recorded of it.

    hold.py --bench build/release/bin/tarn_bench --driver build/release/lib/libtarn_sim.so
    hold.py --adversaries [--record] --bench ... --driver ...
    hold.py --pinned --bench ... --driver ...

The traces are the repository's, which peak at the same bytes on the simulator as on a GPU, or the worst cases that
tarn_bench makes itself (--adversaries), some of which peak a little higher or lower on a GPU. For each trace a line
says what Tarn reserves over what is requested, what it reserved when bench/results/traces.jsonl (adversaries.jsonl) was
written, and the best of the rivals there. The exit status is 1 where Tarn reserves more than then, or a figure is
missing. Fewer bytes are progress: record them.

--pinned has traces of page-locked memory (bench/traces/pinned), which are held against their limit alone: what is reserved
in the first replay is at most an eighth more than what is requested.

--record writes this run's figures of adversaries over those of the record; those that this run has not measured stay.
With --driver cuda, on a GPU, the driver's pool is measured, too, and its figures alone are written: Tarn's are those of
the simulator, which the test has.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

import pack  # noqa: E402
import results  # noqa: E402

RESULTS = ROOT / "bench" / "results"
TRACES = ROOT / "bench" / "traces"
RATIO = "reserved over requested"
PEAK = "GiB requested at the peak"
MORE = 0.002  # of the ratio: blocks of several threads come in another order
MORE_OF_ADVERSARIES = 0.005
TRACES_A_RUN = 10
DEVICE_MIB = 131072
PINNED_MAX = 1.125
PINNED = "pinned_recorded"


def read_lines(path):
    return [line for _, line in results.read(path)]


def ratios(path, row="recorded", wanted=RATIO):
    """{trace: {rival or None: reserved over requested}} of lines of JSON."""
    found = {}
    for figure in read_lines(path):
        trace, _, what = figure["variant"].partition(": ")
        if figure["row"] == row and what == wanted:
            found.setdefault(trace, {})[figure["rival"]] = figure["median"]
    return found


def run(bench, driver, out, words):
    environment = dict(os.environ, TARN_DRIVER=driver, TARN_SIM_MEMORY_MIB=str(DEVICE_MIB))
    command = [str(bench), "--out", str(out), *map(str, words)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def replay(bench, driver, traces, out, row="recorded"):
    for first in range(0, len(traces), TRACES_A_RUN):
        words = ["--quick", "--row", row]
        for trace in traces[first:first + TRACES_A_RUN]:
            words += ["--trace", trace]
        run(bench, driver, out, words)


def judge(name, recorded, now, more=MORE, rivals_needed=True):
    """Whether Tarn reserves no more than recorded; prints the line."""
    before = recorded.get(name, {}).get(None)
    rivals = {rival: ratio for rival, ratio in recorded.get(name, {}).items() if rival is not None}
    here = now.get(name, {}).get(None)
    if before is None or here is None or (rivals_needed and not rivals):
        print(f"{name}: MISSING a figure")
        return False
    best = min(rivals, key=rivals.get, default=None)
    good = here <= before + more
    print(f"{name:22} {here:.4f}, recorded {before:.4f}"
          f"{f', best {rivals[best]:.4f} ({best})' if rivals else ''}"
          f"{'' if good else '  MORE THAN RECORDED'}")
    return good


def record(path, lines):
    """Puts the lines that are read into the file, in place of older ones of the same figures. Tarn's are the
    simulator's."""
    kept = [line for line in lines if line["variant"].partition(": ")[2] in (RATIO, PEAK) and
            (line["simulated"] or line["rival"] is not None)]
    figures = {(line["variant"], line["rival"]) for line in kept}
    older = read_lines(path) if path.exists() else []
    kept += [line for line in older if (line["variant"], line["rival"]) not in figures]
    kept.sort(key=lambda line: (line["variant"], line["rival"] or ""))
    path.write_text(results.text_of(kept))
    print(f"{path}: {len(kept)} lines")


def unpacked(folder, to):
    """The traces of the folder, unpacked; none where there is none, or one is refused."""
    packed = sorted(folder.glob("*" + pack.SUFFIX))
    if not packed:
        print(f"no trace in {folder}")
    elif pack.main(["unpack", *map(str, packed), "--to", str(to)]) == 0:
        return sorted(to.glob("*.trace"))
    return []


def is_within(name, ratio, later):
    """Whether a trace of page-locked memory is within its limit; prints the line."""
    if ratio is None or later is None:
        print(f"{name}: MISSING a figure")
        return False
    good = ratio <= PINNED_MAX
    print(f"{name:22} {ratio:.4f}, later {later:.4f}, at most {PINNED_MAX}{'' if good else '  MORE'}")
    return good


def hold_pinned(arguments, lines):
    traces = unpacked(arguments.traces or TRACES / "pinned", lines.parent)
    if traces:
        replay(arguments.bench, arguments.driver, traces, lines, PINNED)
    found = [ratios(lines, PINNED, what) if traces else {} for what in (RATIO, f"{RATIO}, later")]
    return bool(traces) and all(
        [is_within(trace.stem, *(ratio.get(trace.stem, {}).get(None) for ratio in found)) for trace in traces]
    )


def hold_traces(arguments, lines):
    traces = unpacked(arguments.traces or TRACES, lines.parent)
    if not traces:
        return False
    replay(arguments.bench, arguments.driver, traces, lines)
    recorded, now = ratios(arguments.recorded or RESULTS / "traces.jsonl"), ratios(lines)
    return all([judge(trace.stem, recorded, now) for trace in traces])


def hold_adversaries(arguments, lines):
    path = arguments.recorded or RESULTS / "adversaries.jsonl"
    run(arguments.bench, arguments.driver, lines, ["--row", "adversaries"])
    if arguments.record:
        record(path, read_lines(lines))
    recorded, now = ratios(path, "adversaries"), ratios(lines, "adversaries")
    return all([judge(name, recorded, now, MORE_OF_ADVERSARIES, False) for name in sorted({*recorded, *now})])


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, required=True)
    parser.add_argument("--driver", required=True, help="a library's path, or cuda")
    parser.add_argument("--traces", type=pathlib.Path, help="a folder in place of the repository's")
    parser.add_argument("--adversaries", action="store_true")
    parser.add_argument("--pinned", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--recorded", type=pathlib.Path, help="a file of results in place of the repository's")
    arguments = parser.parse_args(words)
    if arguments.record and not arguments.adversaries:
        parser.error("figures of recorded traces come from a GPU alone: tools/traces/run.sh")
    arguments.bench = arguments.bench.resolve()
    if arguments.driver != "cuda":
        arguments.driver = str(pathlib.Path(arguments.driver).resolve())
    hold = hold_adversaries if arguments.adversaries else hold_pinned if arguments.pinned else hold_traces
    with tempfile.TemporaryDirectory() as folder:
        return 0 if hold(arguments, pathlib.Path(folder) / "lines.jsonl") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
