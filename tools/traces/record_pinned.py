#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records traces (docs/traces.md) of what programs ask of an allocator of page-locked memory.

    record_pinned.py --out FOLDER [--only NAME]... [--scale S]    writes FOLDER/NAME.trace
    record_pinned.py --dry-run [--only NAME]...                   tiny; nothing is written

The programs are in programs_pinned.py. What they ask for does not depend on a device, so any machine records, without a
GPU and without PyTorch: memory is the process's own. Each program prints a line of JSON with the facts of its trace.
The exit status is 0 when every trace was written and peaks at 256 MiB or more.
"""

import argparse
import json
import mmap
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import convert  # noqa: E402
import programs_pinned  # noqa: E402

PEAK_MIN = 256 << 20
HOST = "host"  # the stream of every block: memory of the host belongs to none
PAGE = mmap.PAGESIZE


class Buffer:
    """Memory that a program has taken. bytes may be read and written until the buffer is given back."""

    def __init__(self, number, size):
        self.number, self.size = number, size
        self.bytes = mmap.mmap(-1, size)

    def write(self):
        """A byte a page, as far as the first sixteen pages: a program would write them all."""
        for at in range(0, min(self.size, 16 * PAGE), PAGE):
            self.bytes[at] = 1


class Memory:
    """The allocator of page-locked memory that a program sees; keeps the events of convert.py."""

    def __init__(self):
        self.events = [("begin",)]
        self.live = {}  # {number: buffer}
        self.made = 0
        self.current = None
        self.uses = set()  # (number, stream) of live buffers

    def thread(self, name):
        """All that follows is done by that thread."""
        if name != self.current:
            self.current = name
            self.events.append(("thread", name))

    def take(self, size):
        buffer = Buffer(self.made, size)
        self.made += 1
        self.live[buffer.number] = buffer
        self.events.append(("allocate", buffer.number, size, HOST))
        buffer.write()
        return buffer

    def copy(self, buffer, stream):
        """A copy from the buffer or to it, on a stream of the device."""
        self.check(buffer)
        if (buffer.number, stream) not in self.uses:
            self.uses.add((buffer.number, stream))
            self.events.append(("use", buffer.number, stream))

    def give(self, buffers):
        for buffer in buffers:
            self.check(buffer)
            buffer.bytes.close()
            del self.live[buffer.number]
            self.events.append(("free", buffer.number))

    def step(self):
        self.events.append(("step",))

    def check(self, buffer):
        if self.live.get(buffer.number) is not buffer:
            raise ValueError(f"buffer {buffer.number} is not live")


def record(name, scale=1.0, tiny=False):
    """The events of a program."""
    memory = Memory()
    programs_pinned.PROGRAMS[name](memory, scale, tiny)
    return memory.events


def write(folder, name, events):
    data = convert.encode(events, name, "requests for page-locked memory", "no device")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.trace").write_bytes(data)
    return len(data)


def main():
    parser = argparse.ArgumentParser(description="Records requests for page-locked memory.")
    names = sorted(programs_pinned.PROGRAMS)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/pinned"))
    parser.add_argument("--only", action="append", choices=names)
    parser.add_argument("--scale", type=float, default=1.0, help="of batches and stores; 1: as large as meant")
    parser.add_argument("--dry-run", action="store_true", help="tiny; nothing is written")
    arguments = parser.parse_args()
    good = True
    for name in arguments.only or names:
        events = record(name, arguments.scale, arguments.dry_run)
        facts = {"trace": name, **convert.summarize(events)}
        if arguments.dry_run:
            facts["dry_run"] = True
        else:
            facts["file_bytes"] = write(arguments.out, name, events)
            good = good and facts["live_peak_bytes"] >= PEAK_MIN
        print(json.dumps(facts), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
