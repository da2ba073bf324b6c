# SPDX-License-Identifier: Apache-2.0
"""From PyTorch's history of its allocator to a trace (docs/traces.md).

    convert.py SNAPSHOT.pickle OUT.trace --name NAME [--source TEXT] [--device-name TEXT] [--device N]

SNAPSHOT is what torch.cuda.memory._dump_snapshot writes, with the history from the program's beginning.
It is a pickle: only those that you trust.

A history becomes a list of events, tuples that begin with their kind:

    ("allocate", key, bytes, stream)    the key names the block until its free, then is free for others
    ("free", key)
    ("use", key, stream)                on another stream than the block's own
    ("begin",)                          the recording begins: before it are blocks that lived already
    ("step",)
    ("thread", key)                     all following events are of that thread, until the next such

and these become bytes. Nothing but the standard library is needed, and nothing here has a state.
"""

import argparse
import collections
import pickle
import struct
import sys
import zlib

MAGIC = b"\x89TARN\r\n\x1a"
VERSION = 1
VERSION_THREADS = 2
STREAMS_MAX = 64
THREADS_MAX = 64
NAME_MAX = 31
TEXT_MAX = 63

MARK_BEGIN, MARK_STEP, MARK_THREAD = 0, 1, 2

# Nothing asks for so many bytes by itself. A recorder allocates a block of them, and frees it, for each
# of its notes, so that the note has its place in the history.
NOTE_BYTES = 7919


class Unconvertible(Exception):
    """The history cannot become a trace; the sentence says why."""


# ---- from a history to events ----------------------------------------------------------------


def _requested(block):
    return block.get("requested_size") or block["size"]


def _active_blocks(segments, device):
    """{address: (bytes, stream)} of the blocks that are not free."""
    found = {}
    for segment in segments:
        if segment.get("device", device) != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                found[block.get("address", address)] = (_requested(block), segment["stream"])
            address += block["size"]
    return found


def _lived_before(history, segments, device):
    """The blocks that a history frees, or leaves live, and has never allocated."""
    found = {}
    known = set()
    for entry in history:
        action, address = entry["action"], entry.get("addr")
        if action == "alloc":
            known.add(address)
        elif action in ("free_requested", "free_completed") and address not in known:
            known.add(address)
            found[address] = (entry["size"], entry["stream"])
    for address, block in _active_blocks(segments, device).items():
        if address not in known:
            found[address] = block
    return found


class _Converter:
    """What is live while a history is read."""

    def __init__(self, notes):
        self.notes = notes
        self.note_count = 0
        self.note_addresses = set()
        self.events = []
        self.streams = {}  # of the live blocks, by address
        self.uses = collections.defaultdict(set)  # streams, by address
        self.freed_early = set()  # addresses whose free was written where it was requested

    def allocate(self, address, size, stream):
        if address in self.streams or address in self.freed_early:
            raise Unconvertible(
                f"address {address:#x} is allocated twice: the history has a gap, or is of several devices"
            )
        self.streams[address] = stream
        self.events.append(("allocate", address, size, stream))

    def note(self, address):
        if self.note_count == len(self.notes):
            raise Unconvertible(f"the history has more than the {len(self.notes)} notes that were made")
        note = self.notes[self.note_count]
        self.note_count += 1
        self.note_addresses.add(address)
        if note[0] == "step":
            self.events.append(("step",))
            return
        kind, used, stream = note
        if kind != "use":
            raise Unconvertible(f"there is no note {kind!r}")
        if used not in self.streams:
            raise Unconvertible(f"a note says that {used:#x} is used, which is not live")
        if stream != self.streams[used] and stream not in self.uses[used]:
            self.uses[used].add(stream)
            self.events.append(("use", used, stream))

    def free(self, address):
        del self.streams[address]
        self.uses.pop(address, None)
        self.events.append(("free", address))

    def free_requested(self, address):
        if address not in self.streams:
            raise Unconvertible(f"address {address:#x} is freed, and was not live")
        if self.uses.get(address):
            self.free(address)
            self.freed_early.add(address)

    def free_completed(self, address):
        if address in self.freed_early:
            self.freed_early.remove(address)
        elif address in self.streams:
            self.free(address)
        else:
            raise Unconvertible(f"address {address:#x} comes back, and was not live")

    def read(self, entry):
        action = entry["action"]
        if action not in ("alloc", "free_requested", "free_completed"):
            return  # of segments, snapshots and failures
        address = entry["addr"]
        if address in self.note_addresses:
            if action == "free_completed":
                self.note_addresses.remove(address)
        elif action == "alloc" and self.notes is not None and entry["size"] == NOTE_BYTES:
            self.note(address)
        elif action == "alloc":
            self.allocate(address, entry["size"], entry["stream"])
        elif action == "free_requested":
            self.free_requested(address)
        else:
            self.free_completed(address)


def events_of(snapshot, device=0, before=None, notes=None):
    """The events of one device of a snapshot.

    before: the snapshot that was taken when recording began; None: what lived before is inferred.
    notes:  what the recorder noted, in order: ("step",) or ("use", address, stream), a stream being
            PyTorch's number of it; None: it made none, and no size is special.
    """
    traces = snapshot["device_traces"]
    history = traces[device] if device < len(traces) else []
    converter = _Converter(notes)
    if before is None:
        lived = _lived_before(history, snapshot["segments"], device)
    else:
        lived = _active_blocks(before["segments"], device)
    for address in sorted(lived):
        size, stream = lived[address]
        converter.allocate(address, size, stream)
    converter.events.append(("begin",))
    for entry in history:
        converter.read(entry)
    if notes is not None and converter.note_count != len(notes):
        raise Unconvertible(
            f"the history has {converter.note_count} of the {len(notes)} notes that were made"
        )
    return converter.events


# ---- from events to bytes --------------------------------------------------------------------


def _varint(value):
    part = bytearray()
    while value > 0x7F:
        part.append(value & 0x7F | 0x80)
        value >>= 7
    part.append(value)
    return bytes(part)


def _text(what, text, longest):
    if not 1 <= len(text) <= longest or any(not " " <= c <= "~" for c in text):
        raise Unconvertible(f"the {what} has to be 1 to {longest} printable ASCII characters: {text!r}")
    return bytes([len(text)]) + text.encode("ascii")


def summarize(events):
    """What a trace of these events has: counts, and the most bytes live."""
    sizes = {}
    live = peak = 0
    for event in events:
        if event[0] == "allocate":
            sizes[event[1]] = event[2]
            live += event[2]
            peak = max(peak, live)
        elif event[0] == "free":
            live -= sizes.pop(event[1])
    count = collections.Counter(event[0] for event in events)
    return {
        "allocations": count["allocate"],
        "frees": count["free"],
        "uses": count["use"],
        "steps": count["step"],
        "events": count["allocate"] + count["free"] + count["use"],
        "live_peak_bytes": peak,
    }


def _mark(mark):
    return _varint(mark << 3 | 4 | 3)


def _records(events, places, streams, threads):
    written = bytearray()
    numbers = {}
    allocated = current = current_thread = 0
    for event in events:
        kind = event[0]
        if kind == "allocate":
            stream = streams[event[3]]
            if stream != current:
                written += _varint(stream << 3 | 3)
                current = stream
            written += _varint(places[event[2]] << 2)
            numbers[event[1]] = allocated
            allocated += 1
        elif kind == "free":
            written += _varint((allocated - 1 - numbers.pop(event[1])) << 2 | 1)
        elif kind == "use":
            written += _varint((allocated - 1 - numbers[event[1]]) << 2 | 2)
            written += _varint(streams[event[2]])
        elif kind == "thread":
            if threads[event[1]] != current_thread:
                current_thread = threads[event[1]]
                written += _mark(MARK_THREAD + current_thread)
        else:
            written += _mark({"begin": MARK_BEGIN, "step": MARK_STEP}[kind])
    return bytes(written)


def encode(events, name, source, device_name, reserved_peak=0, allocated_peak=0):
    """The bytes of a trace: of version 2 where threads are told. The peaks are the recorded allocator's own; 0: not
    known."""
    sizes = collections.Counter(event[2] for event in events if event[0] == "allocate")
    places = {}
    for size, _ in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        places[size] = len(places)
    streams = {}
    for event in events:
        if event[0] in ("allocate", "use"):
            streams.setdefault(event[-1], len(streams))
    if not 1 <= len(streams) <= STREAMS_MAX:
        raise Unconvertible(f"there are {len(streams)} streams; 1 to {STREAMS_MAX} can be told")
    threads = {}
    for event in events:
        if event[0] == "thread":
            threads.setdefault(event[1], len(threads))
    if len(threads) > THREADS_MAX:
        raise Unconvertible(f"there are {len(threads)} threads; {THREADS_MAX} can be told")
    sums = summarize(events)
    checked = struct.pack(
        "<QQQQQII",
        sums["allocations"],
        sums["events"],
        sums["live_peak_bytes"],
        reserved_peak,
        allocated_peak,
        len(streams),
        len(places),
    )
    if threads:
        checked += struct.pack("<I", len(threads))
    checked += _text("name", name, NAME_MAX)
    checked += _text("source", source, TEXT_MAX)
    checked += _text("device", device_name, TEXT_MAX)
    checked += b"".join(_varint(size) for size in places)
    checked += _records(events, places, streams, threads)
    version = VERSION_THREADS if threads else VERSION
    return MAGIC + struct.pack("<II", version, zlib.crc32(checked)) + checked


# ---- from bytes ------------------------------------------------------------------------------


def _read_varint(data, at):
    """The number, and where the next one begins."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def has_uses(data):
    """Whether a trace, which is a good one, has a block that is used on another stream than its own."""
    version = struct.unpack_from("<I", data, 8)[0]
    sizes = struct.unpack_from("<I", data, 60)[0]
    at = 68 if version == VERSION_THREADS else 64
    for _ in ("name", "source", "device"):
        at += 1 + data[at]
    for _ in range(sizes):
        at = _read_varint(data, at)[1]
    while at < len(data):
        record, at = _read_varint(data, at)
        if record & 3 == 2:
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description="Makes a trace of a snapshot of PyTorch's allocator.")
    parser.add_argument("snapshot", help="a pickle of torch.cuda.memory._dump_snapshot")
    parser.add_argument("out")
    parser.add_argument("--name", required=True)
    parser.add_argument("--source", default="PyTorch")
    parser.add_argument("--device-name", default="unknown")
    parser.add_argument("--device", type=int, default=0)
    arguments = parser.parse_args()
    with open(arguments.snapshot, "rb") as file:
        snapshot = pickle.load(file)
    try:
        events = events_of(snapshot, arguments.device)
        written = encode(events, arguments.name, arguments.source, arguments.device_name)
    except Unconvertible as why:
        sys.exit(f"convert.py: {why}")
    with open(arguments.out, "wb") as file:
        file.write(written)
    print(summarize(events))


if __name__ == "__main__":
    main()
