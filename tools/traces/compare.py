#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds Tarn's figures of recorded traces against the others'.

    compare.py LINES.jsonl...    what tarn_bench and torch_trace have written (docs/traces.md)

Of several figures of one thing the last counts. Tarn is to take a fifth of the time of the fastest of the
others; and of memory, peak reserved over peak allocated, where 8 GiB or more were live, no more than PyTorch
with expandable segments. Prints every figure; exit status 1 when something is missed or was not measured.
"""

import json
import sys

TIMES_BETTER = 5
PEAK_MIN_GIB = 8
TARN = "Tarn"
EXPANDABLE = "PyTorch, expandable segments"
TIMED = (EXPANDABLE, "PyTorch", "cuMemAllocFromPoolAsync")


def read(paths):
    """{trace: {what: {of: median}}}, and whether a figure is of a simulated driver."""
    found = {}
    simulated = False
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                result = json.loads(line)
                if result["row"] != "recorded":
                    continue
                trace, what = result["variant"].split(": ", 1)
                of = result["rival"] or TARN
                found.setdefault(trace, {}).setdefault(what, {})[of] = result["median"]
                simulated = simulated or result["simulated"]
    return found, simulated


def judge_time(figures):
    """What is missed or missing, as sentences."""
    times = figures.get("event", {})
    missing = [f"no time of {of}" for of in (TARN,) + TIMED if of not in times]
    if missing:
        return missing
    fastest = min(times[of] for of in TIMED)
    if fastest < TIMES_BETTER * times[TARN]:
        return [f"time is {fastest / times[TARN]:.2f} times better, not {TIMES_BETTER}"]
    return []


def judge_memory(figures):
    peak = figures.get("GiB requested at the peak", {}).get("as recorded")
    if peak is None:
        return ["no peak"]
    if peak < PEAK_MIN_GIB:
        return []
    ratios = figures.get("reserved over allocated", {})
    missing = [f"no memory of {of}" for of in (TARN, EXPANDABLE) if of not in ratios]
    if missing:
        return missing
    if ratios[TARN] > ratios[EXPANDABLE]:
        return [f"memory is {ratios[TARN]:.4f}, above {ratios[EXPANDABLE]:.4f}"]
    return []


def main(paths):
    if not paths:
        sys.exit("usage: compare.py LINES.jsonl...")
    found, simulated = read(paths)
    failures = 0 if found else 1
    for trace, figures in sorted(found.items()):
        print(trace)
        for what, medians in figures.items():
            for of, median in medians.items():
                print(f"    {what:32}  {of:28}  {median:10.5g}")
        missed = judge_time(figures) + judge_memory(figures)
        print("    " + ("; ".join(f"MISSED: {sentence}" for sentence in missed) or "met"))
        failures += len(missed)
    if not found:
        print("no figure of a recorded trace")
    if simulated:
        print("figures of a simulated driver are among these: they say little about a GPU")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
