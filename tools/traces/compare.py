#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds Tarn's figures of recorded traces against the others'.

    compare.py LINES.jsonl... [--traces FOLDER]    what tarn_bench and torch_trace have written (docs/traces.md)

Of several figures of one thing the last counts. For each trace there are three limits:

    memory         peak reserved over peak requested is at most 1.04, and at most 0.005 above the best of the others
    event          the best of the others takes 5 times as long; 3 times in a trace that uses blocks on other streams
    first replay   the best of the others takes 2.5 times as long, by the replay on an allocator without memory

FOLDER has the traces, packed or not: they tell whether other streams use blocks. Prints a line for each trace, and how
many traces meet each limit. The exit status is 1 when a limit is missed or a figure is missing.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import convert  # noqa: E402
import pack  # noqa: E402
import results  # noqa: E402

MEMORY_MAX = 1.04
MEMORY_ABOVE_BEST = 0.005
TIMES_BETTER = 5
TIMES_BETTER_USES = 3
TIMES_BETTER_FIRST = 2.5
TARN = "Tarn"
DRIVER = "cuMemAllocFromPoolAsync"
EXPANDABLE = "PyTorch, expandable segments"
RIVALS = (DRIVER, "PyTorch", EXPANDABLE)
PEAK = "GiB requested at the peak"
MEMORY = "reserved over requested"
LIMITS = ("memory", "event", "first replay")


def read(paths):
    """{trace: {what: {of: median}}}, and whether a figure is of a simulated driver."""
    found = {}
    simulated = False
    for path in paths:
        for _, result in results.read(path):
            if result["row"] != "recorded":
                continue
            trace, what = result["variant"].split(": ", 1)
            of = result["rival"] or TARN
            found.setdefault(trace, {}).setdefault(what, {})[of] = result["median"]
            simulated = simulated or result["simulated"]
    return found, simulated


def has_uses(folder, trace):
    """Whether other streams use blocks of the trace; None: there is no such file."""
    plain = folder / f"{trace}.trace"
    packed = folder / f"{trace}{pack.SUFFIX}"
    if plain.exists():
        return convert.has_uses(plain.read_bytes())
    if packed.exists():
        return convert.has_uses(pack.unpack(packed.read_bytes()))
    return None


def best(figures, what):
    """Tarn's figure and the best of the others'; None where one of them is missing."""
    medians = figures.get(what, {})
    if any(of not in medians for of in (TARN,) + RIVALS):
        return None
    return medians[TARN], min(medians[of] for of in RIVALS)


def judge_memory(figures):
    """(whether it is met, the limit)"""
    both = best(figures, MEMORY)
    if both is None:
        return False, None
    limit = min(MEMORY_MAX, both[1] + MEMORY_ABOVE_BEST)
    return both[0] <= limit, limit


def judge_time(figures, what, times):
    """(whether it is met, how many times as long the best of the others takes)"""
    both = best(figures, what)
    if both is None:
        return False, None
    return both[1] >= times * both[0], both[1] / both[0]


def cell(value, form):
    width = int(form.split(".")[0])
    return "-".rjust(width) if value is None else format(value, form)


def verdict(met, value):
    return "missing" if value is None else "met" if met else "missed"


def judge(trace, figures, uses):
    """Prints the line of a trace. Returns which of the limits are met."""
    times = TIMES_BETTER_USES if uses else TIMES_BETTER
    memory_met, limit = judge_memory(figures)
    event_met, ratio = judge_time(figures, "event", times)
    first_met, first = judge_time(figures, "event, first replay", TIMES_BETTER_FIRST)
    ratios = figures.get(MEMORY, {})
    parts = [f"{trace:18}", cell(figures.get(PEAK, {}).get("as recorded"), "6.2f")]
    parts += [cell(ratios.get(of), "7.4f") for of in (TARN,) + RIVALS]
    parts += [cell(limit, "7.4f"), f"{verdict(memory_met, limit):7}"]
    parts += [cell(figures.get("event", {}).get(TARN), "6.1f"), cell(ratio, "6.2f"), f"{times}"]
    parts += [f"{verdict(event_met, ratio):7}", cell(first, "6.2f"), verdict(first_met, first)]
    print("  ".join(parts).rstrip())
    return memory_met, event_met, first_met


def print_head():
    print(f"{'':18}  {'peak':>6}  {'reserved over requested':33}  {'':7}  {'':7}  {'event':>6}")
    print(f"{'trace':18}  {'GiB':>6}  {'Tarn':>7}  {'driver':>7}  {'PyTorch':>7}  {'expand.':>7}  {'limit':>7}  "
          f"{'':7}  {'ns':>6}  {'times':>6}  of {'':6}  {'first':>6}  of {TIMES_BETTER_FIRST}")


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=pathlib.Path, nargs="+")
    parser.add_argument("--traces", type=pathlib.Path, default=HERE.parents[1] / "bench" / "traces")
    arguments = parser.parse_args(words)
    found, simulated = read(arguments.lines)
    if not found:
        print("no figure of a recorded trace")
        return 1
    print_head()
    met = []
    for trace, figures in sorted(found.items()):
        uses = has_uses(arguments.traces, trace)
        met.append(judge(trace, figures, uses))
        if uses is None:
            print(f"    no file of {trace} in {arguments.traces}: it is judged as if it used one stream")
    if simulated:
        print("figures of a simulated driver are among these: they say little about a GPU")
    counts = ", ".join(f"{limit} by {sum(of[i] for of in met)}" for i, limit in enumerate(LIMITS))
    print(f"{len(met)} traces; met: {counts}, all by {sum(all(of) for of in met)}")
    return 0 if all(all(of) for of in met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
