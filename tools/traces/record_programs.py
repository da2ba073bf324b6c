#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records allocation traces (docs/traces.md) of the programs in programs.py, with their threads.

    record_programs.py --out FOLDER [--jobs N] [--missing] [--only NAME]...   on a machine with an NVIDIA GPU, PyTorch and cc
    record_programs.py --dry-run [--only NAME]...                             tiny programs on the processor; nothing is recorded

Each program runs in a process of its own, with recorder.c as PyTorch's allocator. N processes run at a time, fewer
where their budgets of memory together exceed the device's. FOLDER/NAME.trace is the trace, FOLDER/NAME.json what is
known beside it. Each program prints a line of JSON when it ends; one that fails says why in its line and leaves no
files, and the others still run. A peak below 2 GiB is recorded once more, at a larger scale. The exit status is 0
when every trace was written.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import convert  # noqa: E402
import recorder_log  # noqa: E402
import recording  # noqa: E402
from recording import Failed  # noqa: E402

GIB = 1 << 30
PEAK_MIN = 2 * GIB
SCALE_MORE_MAX = 8.0  # of a second try
SECONDS_EACH = 110
SECONDS_ALL = 400
DEVICE_GIB = 70  # of a device of 80: what all processes together may take
CONTEXT_GIB = 1.5  # of each process beside its recorder: the context and the libraries' own memory
POLL_SECONDS = 0.1

# The GiB of the recorder's first slab: the program's peak and a third more. A program that needs more gets it, as long
# as the device has it.
SLABS = {
    "serve_growing": 14,
    "serve_shared": 9,
    "serve_evicted": 8,
    "serve_beams": 8,
    "adapters": 8,
    "threads_serve": 9,
    "gpt2": 20,
    "varlen_accumulate": 16,
    "varlen_checkpoint": 12,
    "experts": 14,
    "reinforce": 12,
    "speech": 12,
    "side_stream": 6,
    "threads_loader": 8,
    "resnet50": 12,
    "detection": 20,
    "diffusion_serve": 12,
    "diffusion_train": 12,
    "graphs": 12,
}


# ---- one program, in its own process ---------------------------------------------------------


def build(folder):
    """The recorder's library."""
    library = folder / "recorder.so"
    command = os.environ.get("CC", "cc").split()
    command += ["-std=c17", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", str(library)]
    command += [str(HERE / "recorder.c"), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library


class Recorder:
    """recorder.c, as PyTorch's allocator from here on. Nothing may have been allocated."""

    def __init__(self, torch, library, slab_bytes, driver="libcuda.so.1"):
        self.calls = ctypes.CDLL(str(library))
        self.calls.recorder_open.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        self.calls.recorder_open.restype = ctypes.c_bool
        self.calls.recorder_write.argtypes = [ctypes.c_char_p]
        self.calls.recorder_write.restype = ctypes.c_bool
        self.calls.recorder_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.calls.recorder_slab_bytes.restype = ctypes.c_uint64
        self.calls.recorder_synchronizations.restype = ctypes.c_uint64
        if not self.calls.recorder_open(driver.encode(), int(slab_bytes)):
            raise Failed("the recorder cannot load the driver")
        allocator = torch.cuda.memory.CUDAPluggableAllocator(str(library), "recorder_alloc", "recorder_free")
        # PyTorch itself records streams, too, where gradients pass from one to another.
        made = allocator.allocator()
        self.tells_uses = hasattr(made, "set_record_stream_fn")
        if self.tells_uses:
            made.set_record_stream_fn(ctypes.cast(self.calls.recorder_record_stream, ctypes.c_void_p).value)
        torch.cuda.memory.change_current_allocator(allocator)

    def step(self):
        self.calls.recorder_step()

    def use(self, tensor, stream):
        if self.tells_uses:
            tensor.record_stream(stream)
        else:
            self.calls.recorder_record_stream(tensor.untyped_storage().data_ptr(), stream.cuda_stream)

    def log(self, folder):
        path = folder / "log"
        if not self.calls.recorder_write(str(path).encode()):
            raise Failed("the log cannot be written")
        return path.read_bytes()


def record(name, out, scale, library):
    import torch

    if not torch.cuda.is_available():
        raise Failed("PyTorch finds no GPU")
    recorder = Recorder(torch, library, SLABS[name] * GIB * max(1.0, scale))
    import programs

    torch.manual_seed(1)
    begin = time.monotonic()
    programs.PROGRAMS[name](torch.device("cuda"), scale, recorder)
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    with tempfile.TemporaryDirectory() as folder:
        events = recorder_log.events_of(recorder.log(pathlib.Path(folder)))
    data = recording.encode(torch, events, name, "a recording allocator")
    facts = {
        "recorder_gib": round(recorder.calls.recorder_slab_bytes() / GIB, 2),
        "recorder_synchronizations": recorder.calls.recorder_synchronizations(),
        "uses_told_by_pytorch": recorder.tells_uses,
        "threads": len({event[1] for event in events if event[0] == "thread"}),
        "streams": len({event[-1] for event in events if event[0] in ("allocate", "use")}),
        **convert.summarize(events),
    }
    return recording.write(torch, out, name, data, scale, seconds, facts)


def dry_run(name):
    import programs

    return recording.dry_run(name, programs.PROGRAMS[name])


def be_child(arguments):
    """Prints the line of one program."""
    name = arguments.only[0]
    if arguments.dry_run:
        failed = recording.tell(name, lambda: dry_run(name))
    else:
        failed = recording.tell(
            name, lambda: record(name, arguments.out, arguments.scale, arguments.library)
        )
    # Blocks that are still live are not given back one by one.
    sys.stderr.flush()
    os._exit(int(failed))


# ---- all of them -----------------------------------------------------------------------------


class Child:
    """A program that is recorded now."""

    def __init__(self, name, scale, arguments, library, end):
        self.name, self.scale = name, scale
        self.gib = gib_of(name, scale)
        self.end = min(time.monotonic() + SECONDS_EACH, end)
        command = recording.child_command(
            HERE / "record_programs.py", name, arguments, scale, "--library", str(library)
        )
        self.said = tempfile.TemporaryFile()
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen(command, stdout=self.said, env=environment)

    def poll(self):
        """The facts once the program has ended; else None."""
        if self.process.poll() is None:
            if time.monotonic() < self.end:
                return None
            self.process.kill()
            self.process.wait()
            return {"trace": self.name, "error": "stopped: it took too long"}
        self.said.seek(0)
        return recording.heard(self.name, self.said.read(), self.process.returncode)


def gib_of(name, scale):
    return SLABS[name] * max(1.0, scale) + CONTEXT_GIB


def retry_scale(facts, scale):
    """The scale at which a peak would be large enough, or None where no second try is needed."""
    peak = facts.get("live_peak_bytes")
    if peak is None or peak >= PEAK_MIN or facts.get("scale") != scale:
        return None
    return scale * min(SCALE_MORE_MAX, 1.3 * PEAK_MIN / peak)


def finish(child, facts, arguments, waiting, tried):
    """Prints the line, or puts the program back into the queue. Returns whether it has failed."""
    larger = None if arguments.dry_run or child.name in tried else retry_scale(facts, child.scale)
    if larger is not None:
        tried.add(child.name)
        waiting.append((child.name, larger))
        return False
    print(json.dumps(facts), flush=True)
    return "error" in facts


def run_all(arguments, names, library):
    """Returns the number of failures."""
    end = time.monotonic() + SECONDS_ALL
    waiting = [(name, arguments.scale) for name in names]
    running, tried, failures = [], set(), 0
    while waiting or running:
        room = DEVICE_GIB - sum(child.gib for child in running)
        for name, scale in list(waiting):
            fits = gib_of(name, scale) <= room or not running
            if len(running) < arguments.jobs and fits and time.monotonic() < end:
                waiting.remove((name, scale))
                running.append(Child(name, scale, arguments, library, end))
                room -= running[-1].gib
        if time.monotonic() >= end:
            for name, _ in waiting:
                print(json.dumps({"trace": name, "error": "no time was left"}), flush=True)
                failures += 1
            waiting.clear()
        for child in list(running):
            facts = child.poll()
            if facts is not None:
                running.remove(child)
                failures += finish(child, facts, arguments, waiting, tried)
        time.sleep(POLL_SECONDS)
    return failures


def main():
    parser = argparse.ArgumentParser(description="Records allocation traces of programs whose shapes change.")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/traces"))
    parser.add_argument("--jobs", type=int, default=3, help="programs at a time, where memory allows")
    recording.add_options(parser, sorted(SLABS))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--library", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        be_child(arguments)
    names = recording.chosen(arguments, sorted(SLABS, key=lambda name: -SLABS[name]))
    if arguments.dry_run or not names:
        return 1 if run_all(arguments, names, None) else 0
    with tempfile.TemporaryDirectory() as folder:
        return 1 if run_all(arguments, names, build(pathlib.Path(folder))) else 0


if __name__ == "__main__":
    sys.exit(main())
