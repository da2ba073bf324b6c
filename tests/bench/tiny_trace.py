# SPDX-License-Identifier: Apache-2.0
"""tiny_trace.py OUT: writes a trace by the converter, to see that the benchmark replays it. It is made by
hand: its figures mean nothing. All kinds of records are in it, two streams, blocks that live before the recording
begins, and blocks that live when it ends."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "traces"))

import convert  # noqa: E402

MIB = 1 << 20


def history():
    entries = []

    def add(action, address, size, stream=0):
        entries.append({"action": action, "addr": address, "size": size, "stream": stream})

    def free(address, size, stream=0):
        add("free_requested", address, size, stream)
        add("free_completed", address, size, stream)

    def note():
        add("alloc", 1, convert.NOTE_BYTES)
        free(1, convert.NOTE_BYTES)

    notes = []
    for step in range(8):
        note()
        notes.append(("step",))
        add("alloc", 0x100, (step + 1) * MIB, 7)
        add("alloc", 0x200, 700 * (step + 1))
        note()
        notes.append(("use", 0x100, 0))
        add("free_requested", 0x100, (step + 1) * MIB, 7)
        add("alloc", 0x1000 * (step + 1), 4096)
        add("free_completed", 0x100, (step + 1) * MIB, 7)
        free(0x200, 700 * (step + 1))
    free(0x50, 3 * MIB)
    return entries, notes


def main():
    entries, notes = history()
    blocks = [{"size": 4 * MIB, "requested_size": 3 * MIB, "state": "active_allocated"}]
    before = {"segments": [{"device": 0, "address": 0x50, "stream": 0, "blocks": blocks}]}
    snapshot = {"segments": [], "device_traces": [entries]}
    events = convert.events_of(snapshot, before=before, notes=notes)
    data = convert.encode(events, "tiny", "made by hand", "no device", 3 * MIB, 2 * MIB)
    pathlib.Path(sys.argv[1]).write_bytes(data)


main()
