#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the repository's traces on the simulator and holds Tarn's memory against what was recorded of it.

    hold.py --bench build/release/bin/tarn_bench --driver build/release/lib/libtarn_sim.so

A trace peaks at the same bytes on the simulator as on a GPU. For each trace a line says what Tarn reserves over what
is requested, what it reserved when bench/results/traces.jsonl was written, and the best of the rivals there. The exit
status is 1 where Tarn reserves more than then, or a figure is missing. Fewer bytes are progress: record them.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import pack  # noqa: E402

RATIO = "reserved over requested"
MORE = 0.002  # of the ratio: blocks of several threads come in another order
TRACES_A_RUN = 10
DEVICE_MIB = 131072


def ratios(path):
    """{trace: {rival or None: reserved over requested}} of lines of JSON."""
    found = {}
    for line in path.read_text().splitlines():
        figure = json.loads(line)
        trace, _, what = figure["variant"].partition(": ")
        if figure["row"] == "recorded" and what == RATIO:
            found.setdefault(trace, {})[figure["rival"]] = figure["median"]
    return found


def replay(bench, driver, traces, out):
    environment = dict(os.environ, TARN_DRIVER=str(driver), TARN_SIM_MEMORY_MIB=str(DEVICE_MIB))
    for first in range(0, len(traces), TRACES_A_RUN):
        command = [str(bench), "--quick", "--row", "recorded", "--out", str(out)]
        for trace in traces[first:first + TRACES_A_RUN]:
            command += ["--trace", str(trace)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def judge(name, recorded, now):
    """Whether Tarn reserves no more than recorded; prints the line."""
    before = recorded.get(name, {}).get(None)
    rivals = {rival: ratio for rival, ratio in recorded.get(name, {}).items() if rival is not None}
    here = now.get(name, {}).get(None)
    if before is None or here is None or not rivals:
        print(f"{name}: MISSING a figure")
        return False
    best = min(rivals, key=rivals.get)
    good = here <= before + MORE
    print(f"{name:18} {here:.4f}, recorded {before:.4f}, best {rivals[best]:.4f} ({best})"
          f"{'' if good else '  MORE THAN RECORDED'}")
    return good


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, required=True)
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("--traces", type=pathlib.Path, default=ROOT / "bench" / "traces")
    parser.add_argument("--recorded", type=pathlib.Path, default=ROOT / "bench" / "results" / "traces.jsonl")
    arguments = parser.parse_args(words)
    packed = sorted(arguments.traces.glob("*.trace.xz"))
    if not packed:
        print(f"no trace in {arguments.traces}")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        if pack.main(["unpack", *map(str, packed), "--to", folder]) != 0:
            return 1
        traces = sorted(pathlib.Path(folder).glob("*.trace"))
        lines = pathlib.Path(folder) / "lines.jsonl"
        replay(arguments.bench.resolve(), arguments.driver.resolve(), traces, lines)
        now = ratios(lines)
    recorded = ratios(arguments.recorded)
    return 0 if all([judge(trace.stem, recorded, now) for trace in traces]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
