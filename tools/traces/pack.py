#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compresses traces for the repository, and unpacks them.

    pack.py pack FILE.trace... --to FOLDER             writes FOLDER/NAME.columns.xz
    pack.py unpack FILE.columns.xz... --to FOLDER      writes FOLDER/NAME.trace

A packed trace has the trace's records as columns, compressed by xz (docs/traces.md). Packed traces together have at most
3 MB. The same trace always gives the same bytes. A file that is damaged, no trace, or larger than a trace is when
unpacked, is refused. The exit status is 1 when something was refused.
"""

import argparse
import array
import bisect
import itertools
import lzma
import pathlib
import struct
import sys
import zlib

import convert

PACKED_MAX = 3_000_000  # of all files in a folder
TRACE_MAX = 16 << 20
COLUMNS_MAX = 2 * TRACE_MAX  # a record may take one byte more in columns, and sizes take six
LIVE_MAX = 1 << 16  # each free moves up to as many numbers
SIZE_BYTES = 6
TRACE, SUFFIX = ".trace", ".columns.xz"
NOT_LIVE = "frees or uses a block that is not live"
ALLOCATE, FREE, USE, OTHER = range(4)
# Columns are bytes without an alignment.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 2, "lp": 0, "pb": 0,
            "mf": lzma.MF_BT2, "nice_len": 273, "depth": 1000}]


class Refused(Exception):
    """The sentence says why."""


def read_numbers(data, at):
    """All varints from there to the end. None may be longer than needed: it would not come back as it was."""
    numbers = array.array("Q")
    value = shift = 0
    for part in memoryview(data)[at:]:
        value |= (part & 0x7F) << shift
        if part & 0x80:
            shift += 7
        elif value >> 64 or shift and not part:
            break
        else:
            numbers.append(value)
            value = shift = 0
        if shift > 63:
            break
    if value or shift:
        raise Refused("ends within a number, or has one that is longer than needed or than 64 bits")
    return numbers


def write_numbers(numbers):
    written = bytearray()
    for value in numbers:
        while value > 0x7F:
            written.append(value & 0x7F | 0x80)
            value >>= 7
        written.append(value)
    return bytes(written)


def read_head(data):
    """Where the sizes begin, in a trace and in its columns, and the counts of allocations, events and sizes."""
    if len(data) < 68 or not data.startswith(convert.MAGIC):
        raise Refused("is no trace: it does not begin as one")
    version, = struct.unpack_from("<I", data, 8)
    if version not in (convert.VERSION, convert.VERSION_THREADS):
        raise Refused(f"has version {version}, which is not known")
    at = 68 if version == convert.VERSION_THREADS else 64
    for _ in ("name", "source", "device"):
        at += 1 + data[at] if at < len(data) else 1
    if at > len(data):
        raise Refused("ends within its texts")
    return at, struct.unpack_from("<QQ", data, 16), struct.unpack_from("<I", data, 60)[0]


def check_sum(trace):
    if zlib.crc32(memoryview(trace)[16:]) != struct.unpack_from("<I", trace, 12)[0]:
        raise Refused("is damaged or cut off: its checksum is not that of its bytes")


class Blocks:
    """Numbers of the live blocks, the oldest first. A block's rank counts the live blocks that are younger; its
    distance counts all younger blocks. A free ends the block."""

    def __init__(self):
        self.count = 0
        self.live = []

    def allocate(self):
        if len(self.live) == LIVE_MAX:
            raise Refused(f"has more than {LIVE_MAX} blocks live")
        self.live.append(self.count)
        self.count += 1

    def rank(self, distance, kind):
        number = self.count - 1 - distance
        rank = len(self.live) - 1 - bisect.bisect_left(self.live, number)
        if self.distance(rank, kind) != distance:
            raise Refused(NOT_LIVE)
        return rank

    def distance(self, rank, kind):
        place = len(self.live) - 1 - rank
        if not 0 <= place < len(self.live):
            raise Refused(NOT_LIVE)
        return self.count - 1 - (self.live.pop(place) if kind == FREE else self.live[place])


def columns_of(trace):
    """Fixed header and texts. Sizes by bytes: all lowest bytes first. Then varints: how many runs there are of records
    of one kind, the runs, places of allocations, ranks of frees, what uses and other records have."""
    at, _, size_count = read_head(trace)
    check_sum(trace)
    numbers = iter(read_numbers(trace, at))
    sizes = list(itertools.islice(numbers, size_count))
    if len(sizes) < size_count or max(sizes, default=0) >> 8 * SIZE_BYTES:
        raise Refused("ends within its sizes, or has one that no device holds")
    rows = b"".join(size.to_bytes(SIZE_BYTES, "little") for size in sizes)
    blocks, kinds, columns = Blocks(), bytearray(), (array.array("Q"), array.array("Q"), array.array("Q"))
    for record in numbers:
        kind, value = record & 3, record >> 2
        kinds.append(kind)
        if kind == ALLOCATE:
            blocks.allocate()
        elif kind != OTHER:
            value = blocks.rank(value, kind)
        columns[min(kind, 2)].append(value)
        if kind == USE:
            columns[2].extend(itertools.islice(numbers, 1))
    runs = [sum(1 for _ in run) - 1 << 2 | kind for kind, run in itertools.groupby(kinds)]
    return b"".join((trace[:at], *(rows[place::SIZE_BYTES] for place in range(SIZE_BYTES)),
                     write_numbers(itertools.chain([len(runs)], runs, *columns))))


def records_of(kinds, values):
    """The numbers of a trace's records."""
    blocks = Blocks()
    ends = kinds.count(ALLOCATE), kinds.count(ALLOCATE) + kinds.count(FREE)
    columns = iter(values[:ends[0]]), iter(values[ends[0]:ends[1]]), iter(values[ends[1]:])
    for kind in kinds:
        value = next(columns[min(kind, 2)])
        if kind == ALLOCATE:
            blocks.allocate()
        elif kind != OTHER:
            value = blocks.distance(value, kind)
        yield value << 2 | kind
        if kind == USE:
            yield next(columns[2])


def trace_of(columns):
    at, promised, size_count = read_head(columns)
    end = at + SIZE_BYTES * size_count
    if end >= len(columns):
        raise Refused("ends within its sizes")
    sizes = (int.from_bytes(columns[at + place:end:size_count], "little") for place in range(size_count))
    numbers = read_numbers(columns, end)
    runs, values = numbers[1:numbers[0] + 1], numbers[numbers[0] + 1:]
    if sum((run >> 2) + 1 for run in runs) > len(values):
        raise Refused("has fewer numbers than records")
    kinds = b"".join(bytes([run & 3]) * ((run >> 2) + 1) for run in runs)
    counts = kinds.count(ALLOCATE), len(kinds) - kinds.count(OTHER)
    if counts != promised:
        raise Refused("has {} allocations of {} events, and promises {} of {}".format(*counts, *promised))
    needed = len(kinds) + kinds.count(USE)
    if len(values) != needed:
        raise Refused(f"has {len(values)} numbers, and its {len(kinds)} records need {needed}")
    trace = columns[:at] + write_numbers(sizes) + write_numbers(records_of(kinds, values))
    if len(trace) > TRACE_MAX:
        raise Refused(f"unpacks to more than {TRACE_MAX} bytes")
    check_sum(trace)
    return trace


def pack(trace):
    """The columns are made a trace again at once: this checks the counts, and cannot fail later."""
    if len(trace) > TRACE_MAX:
        raise Refused(f"has {len(trace)} bytes; {TRACE_MAX} are allowed")
    packed = lzma.compress(columns_of(trace), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=FILTERS)
    if unpack(packed) != trace:
        raise Refused("does not come back as it was")
    return packed


def unpack(packed):
    """At most COLUMNS_MAX bytes come from xz, and a trace is at most a few times as long as its columns."""
    decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=256 << 20)
    try:
        columns = decompressor.decompress(packed, max_length=COLUMNS_MAX + 1)
    except lzma.LZMAError as why:
        raise Refused(f"is damaged: {why}") from None
    if len(columns) > COLUMNS_MAX:
        raise Refused(f"unpacks to more than {COLUMNS_MAX} bytes")
    if not decompressor.eof or decompressor.unused_data:
        raise Refused("is cut off, or has bytes behind its end")
    return trace_of(columns)


def convert_file(path, folder, make, suffix, made_suffix):
    if not path.name.endswith(suffix):
        raise Refused(f"does not end in {suffix}")
    made = folder / (path.name[:-len(suffix)] + made_suffix)
    made.write_bytes(make(path.read_bytes()))
    return made


def main(words=None):
    parser = argparse.ArgumentParser(description="Compresses and unpacks traces.")
    parser.add_argument("what", choices=("pack", "unpack"))
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, required=True)
    arguments = parser.parse_args(words)
    arguments.to.mkdir(parents=True, exist_ok=True)
    how = (pack, TRACE, SUFFIX) if arguments.what == "pack" else (unpack, SUFFIX, TRACE)
    failures = 0
    for path in arguments.files:
        try:
            made = convert_file(path, arguments.to, *how)
            print(f"{made}: {made.stat().st_size} bytes")
        except (Refused, OSError) as why:
            print(f"pack.py: {path}: {why}", file=sys.stderr)
            failures += 1
    if arguments.what == "pack":
        total = sum(path.stat().st_size for path in arguments.to.glob("*" + SUFFIX))
        if total > PACKED_MAX:
            print(f"pack.py: {arguments.to} has {total} bytes; {PACKED_MAX} are allowed", file=sys.stderr)
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
