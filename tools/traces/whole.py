#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs whole programs of programs.py with several allocators, and tells the memory that the device had taken at most.

    whole.py --library build/release/lib/libtarn.so --include include [--out LINES.jsonl] [--only NAME]... [--all]

Needs an NVIDIA GPU that nobody else uses, PyTorch, torchvision and a C compiler. Each program runs once with Tarn and
once with PyTorch's expandable segments; with --all also with PyTorch's plain allocator and with cudaMallocAsync. Beside
it this process asks NVML every few milliseconds how much of the device is taken. One line of JSON for each run: the
most that was taken beyond what was taken before, and the program's seconds. The exit status is 1 where Tarn takes more
than PyTorch's expandable segments, or a run has failed.
"""

import argparse
import ctypes
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import recording  # noqa: E402
import torch_plugin  # noqa: E402
from recording import Failed  # noqa: E402

TARN, EXPANDABLE, PLAIN, ASYNC = "Tarn", "PyTorch, expandable segments", "PyTorch", "cudaMallocAsync"
CONF = {EXPANDABLE: "expandable_segments:True", ASYNC: "backend:cudaMallocAsync"}
PROGRAMS = ("serve_growing", "gpt2")
POLL_SECONDS = 0.002
SECONDS_EACH = 180
SETTLE_SECONDS = 1.0  # until the driver has given back what a process had


class Taken:
    """What is taken of the device, by whoever."""

    class Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    def __init__(self):
        try:
            self.calls = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as why:
            raise Failed(f"NVML cannot be loaded: {why}") from why
        self.device = ctypes.c_void_p()
        self.check("nvmlInit_v2")
        self.check("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.device))

    def check(self, name, *arguments):
        status = getattr(self.calls, name)(*arguments)
        if status != 0:
            raise Failed(f"{name}: {status}")

    def bytes(self):
        memory = self.Memory()
        self.check("nvmlDeviceGetMemoryInfo", self.device, ctypes.byref(memory))
        return memory.used


# ---- one program, in its own process ---------------------------------------------------------


def use_tarn(torch, shim):
    """Tarn is PyTorch's allocator from here on. Nothing may have been allocated."""
    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(shim), "tarn_torch_alloc", "tarn_torch_free_on")
    calls = ctypes.CDLL(str(shim))
    made = allocator.allocator()
    if hasattr(made, "set_record_stream_fn"):
        made.set_record_stream_fn(ctypes.cast(calls.tarn_torch_record_stream, ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(allocator)


class Notes(recording.NoNotes):
    def use(self, tensor, stream):
        tensor.record_stream(stream)


def run_program(name, shim):
    import torch

    if shim is not None:
        use_tarn(torch, shim)
    import programs

    torch.manual_seed(1)
    begin = time.monotonic()
    programs.PROGRAMS[name](torch.device("cuda"), 1.0, Notes())
    torch.cuda.synchronize()
    return {"seconds": round(time.monotonic() - begin, 2), "device": torch.cuda.get_device_name(),
            "torch": torch.__version__}


# ---- all of them -----------------------------------------------------------------------------


def measure(taken, name, allocator, shim):
    """The facts of one run."""
    time.sleep(SETTLE_SECONDS)
    before = most = taken.bytes()
    command = [sys.executable, str(HERE / "whole.py"), "--child", name]
    command += ["--shim", str(shim)] if allocator == TARN else []
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    environment.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    if allocator in CONF:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = CONF[allocator]
    end = time.monotonic() + SECONDS_EACH
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, env=environment)
        most = max(most, taken.bytes())
        while process.poll() is None and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
            most = max(most, taken.bytes())
        if process.poll() is None:
            process.kill()
        process.wait()
        said.seek(0)
        facts = recording.heard(name, said.read(), process.returncode)
    return {"program": name, "allocator": allocator, "taken_gib": round((most - before) / (1 << 30), 3), **facts}


def run_all(arguments, shim):
    """Whether Tarn takes no more than expandable segments in every program."""
    taken, good = Taken(), True
    allocators = [TARN, EXPANDABLE] + ([PLAIN, ASYNC] if arguments.all else [])
    for name in arguments.only or PROGRAMS:
        runs = {allocator: measure(taken, name, allocator, shim) for allocator in allocators}
        for facts in runs.values():
            line = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "commit": arguments.commit, **facts}
            print(json.dumps(line), flush=True)
            if arguments.out:
                with arguments.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        good = good and not any("error" in facts for facts in runs.values()) and \
            runs[TARN]["taken_gib"] <= runs[EXPANDABLE]["taken_gib"]
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--include", type=pathlib.Path)
    parser.add_argument("--commit", default="unknown", help="of the library, for the lines")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="all four allocators")
    parser.add_argument("--child", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--shim", type=pathlib.Path, help="torch_plugin.c, built before")
    arguments = parser.parse_args()
    if arguments.child:
        failed = recording.tell(arguments.child, lambda: run_program(arguments.child, arguments.shim))
        sys.stdout.flush()
        os._exit(int(failed))  # live blocks are not given back one by one
    if arguments.shim is None and (arguments.library is None or arguments.include is None):
        parser.error("--library and --include, or --shim, are needed")
    with tempfile.TemporaryDirectory() as folder:
        shim = arguments.shim or torch_plugin.build(arguments.library.resolve(), arguments.include.resolve(), folder)
        try:
            return 0 if run_all(arguments, shim) else 1
        except Failed as why:
            print(why, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
