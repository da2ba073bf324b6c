#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records allocation traces (docs/traces.md) of the workloads in workloads.py.

    record.py [--out FOLDER] [--missing] [--only NAME]...    on a machine with an NVIDIA GPU and PyTorch 2.9 or newer
    record.py --dry-run [--only NAME]...                     tiny workloads on the processor; nothing is recorded

Each workload runs in a process of its own, with PyTorch's expandable segments, from its first allocation on.
FOLDER/NAME.trace is the trace, FOLDER/NAME.json what PyTorch itself had. Each workload prints a line of JSON; one
that fails says why in its line and leaves no files, and the others still run. All take less than three minutes,
or are stopped. The exit status is 0 when every trace was written.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import convert  # noqa: E402
import recording  # noqa: E402
from recording import Failed  # noqa: E402

NAMES = ("training", "diffusion", "decode")
PEAK_MIN = 8 << 30  # of a trace: below it, a ratio of memory says little
SCALE_MORE = 1.6  # of a second try, for a workload that stayed below it
FILE_MAX = 10_000_000
ENTRIES_MAX = 4_000_000  # of the history, which forgets its beginning beyond
SECONDS_ALL = 175
SECONDS_EACH = 120
PEAKS = ("reserved", "allocated", "active", "requested")
CONFIGURATION = "expandable_segments:True"


# ---- one workload, in its own process --------------------------------------------------------


class Notes:
    """Gives each note its place in the history: a block of an odd size, allocated and freed."""

    def __init__(self, torch):
        self.torch = torch
        self.made = []

    def _mark(self, note):
        self.made.append(note)
        self.torch.empty(convert.NOTE_BYTES, dtype=self.torch.uint8, device="cuda")

    def step(self):
        self._mark(("step",))

    def use(self, tensor, stream):
        tensor.record_stream(stream)
        self._mark(("use", tensor.untyped_storage().data_ptr(), stream.cuda_stream))


def start_history(torch):
    """Returns the snapshot of what lives before."""
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(
        enabled="all", context=None, stacks="python", max_entries=ENTRIES_MAX
    )
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory._snapshot()
    for trace in before["device_traces"]:
        if any(entry["action"] in ("alloc", "free_requested") for entry in trace):
            raise Failed("something was allocated while recording began")
    return before


def stop_history(torch):
    """Returns the last snapshot and PyTorch's peaks."""
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    device = torch.cuda.current_device()
    if len(snapshot["device_traces"][device]) >= ENTRIES_MAX:
        raise Failed(f"the history has more than {ENTRIES_MAX} entries")
    if not snapshot.get("allocator_settings", {}).get("expandable_segments", True):
        raise Failed("PyTorch did not take the configuration of expandable segments")
    return snapshot, {peak: stats[f"{peak}_bytes.all.peak"] for peak in PEAKS}


def record(name, folder, scale):
    import torch

    import workloads

    if not torch.cuda.is_available():
        raise Failed("PyTorch finds no GPU")
    torch.manual_seed(1)
    begin = time.monotonic()
    before = start_history(torch)
    notes = Notes(torch)
    workloads.WORKLOADS[name](torch.device("cuda"), scale, notes)
    snapshot, peaks = stop_history(torch)
    seconds = time.monotonic() - begin

    events = convert.events_of(snapshot, torch.cuda.current_device(), before, notes.made)
    data = recording.encode(
        torch, events, name, "expandable segments", peaks["reserved"], peaks["allocated"]
    )
    if len(data) > FILE_MAX:
        raise Failed(f"the trace has {len(data)} bytes; {FILE_MAX} are allowed")
    sums = convert.summarize(events)
    facts = {
        "configuration": CONFIGURATION,
        "pytorch_peak_bytes": peaks,
        "reserved_over_allocated": round(peaks["reserved"] / max(1, peaks["allocated"]), 5),
        "reserved_over_requested": round(peaks["reserved"] / max(1, sums["live_peak_bytes"]), 5),
        "bytes_per_event": round(len(data) / max(1, sums["events"]), 3),
        **sums,
    }
    return recording.write(torch, folder, name, data, scale, seconds, facts)


def dry_run(name):
    import workloads

    return recording.dry_run(name, workloads.WORKLOADS[name])


def be_child(arguments):
    """Prints the line of one workload."""
    name = arguments.only[0]
    if arguments.dry_run:
        return recording.tell(name, lambda: dry_run(name))
    return recording.tell(name, lambda: record(name, arguments.out, arguments.scale))


# ---- all of them -----------------------------------------------------------------------------


def run_child(name, arguments, scale, seconds):
    command = recording.child_command(HERE / "record.py", name, arguments, scale)
    environment = dict(
        os.environ,
        PYTORCH_ALLOC_CONF=CONFIGURATION,
        PYTORCH_CUDA_ALLOC_CONF=CONFIGURATION,
        PYTHONDONTWRITEBYTECODE="1",
    )
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"trace": name, "error": f"stopped after {seconds:.0f} seconds"}
    return recording.heard(name, done.stdout, done.returncode)


def record_one(name, arguments, end):
    """Tries once more, larger, where the peak is too low."""
    scale = arguments.scale
    for last in (False, True):
        seconds = min(SECONDS_EACH, end - time.monotonic())
        if seconds < 10:
            return {"trace": name, "error": "no time was left"}
        facts = run_child(name, arguments, scale, seconds)
        if "error" in facts or arguments.dry_run or facts["live_peak_bytes"] >= PEAK_MIN:
            return facts
        if last:
            facts["error"] = f"the peak is below {PEAK_MIN >> 30} GiB"
            return facts
        scale *= SCALE_MORE


def main():
    parser = argparse.ArgumentParser(description="Records allocation traces of PyTorch workloads.")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/traces"))
    recording.add_options(parser, NAMES)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return int(be_child(arguments))
    end = time.monotonic() + SECONDS_ALL
    failures = 0
    for name in recording.chosen(arguments, NAMES):
        facts = record_one(name, arguments, end)
        failures += "error" in facts
        print(json.dumps(facts), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
