#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compresses traces for the repository, and unpacks them.

    pack.py pack FILE.trace... --to FOLDER         writes FOLDER/NAME.trace.xz
    pack.py unpack FILE.trace.xz... --to FOLDER    writes FOLDER/NAME.trace

Packed traces together have at most 3 MB. The same trace always gives the same bytes. A file that is damaged, or
larger than a trace is when unpacked, is refused. The exit status is 1 when something was refused.
"""

import argparse
import lzma
import pathlib
import sys

PACKED_MAX = 3_000_000  # of all files in a folder
TRACE_MAX = 16 << 20
SUFFIX = ".xz"
# Records are bytes without an alignment.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 1, "lp": 0, "pb": 0}]


class Refused(Exception):
    """The sentence says why."""


def pack(data):
    if len(data) > TRACE_MAX:
        raise Refused(f"has {len(data)} bytes; {TRACE_MAX} are allowed")
    return lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=FILTERS)


def unpack(packed):
    """At most TRACE_MAX bytes are ever made."""
    decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=256 << 20)
    try:
        data = decompressor.decompress(packed, max_length=TRACE_MAX + 1)
    except lzma.LZMAError as why:
        raise Refused(f"is damaged: {why}") from None
    if len(data) > TRACE_MAX:
        raise Refused(f"unpacks to more than {TRACE_MAX} bytes")
    if not decompressor.eof or decompressor.unused_data:
        raise Refused("is cut off, or has bytes behind its end")
    return data


def pack_file(path, folder):
    made = folder / (path.name + SUFFIX)
    made.write_bytes(pack(path.read_bytes()))
    return made


def unpack_file(path, folder):
    if path.suffix != SUFFIX:
        raise Refused(f"does not end in {SUFFIX}")
    made = folder / path.name[: -len(SUFFIX)]
    made.write_bytes(unpack(path.read_bytes()))
    return made


def main(words=None):
    parser = argparse.ArgumentParser(description="Compresses and unpacks traces.")
    parser.add_argument("what", choices=("pack", "unpack"))
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, required=True)
    arguments = parser.parse_args(words)
    arguments.to.mkdir(parents=True, exist_ok=True)
    failures = 0
    for path in arguments.files:
        try:
            made = (pack_file if arguments.what == "pack" else unpack_file)(path, arguments.to)
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
