# SPDX-License-Identifier: Apache-2.0
"""From the recorder's log (recorder.c) to the events of convert.py."""

import struct

ENTRY = struct.Struct("<QQIHH")  # bytes, stream, block, thread, kind
ALLOCATE, FREE, USE, STEP = range(4)


class BadLog(Exception):
    """The log is not one of the recorder's; the sentence says why."""


def events_of(log):
    """The events of a log from the first allocation of the program on. Streams and threads keep their numbers."""
    if len(log) % ENTRY.size != 0:
        raise BadLog(f"the log has {len(log)} bytes, no multiple of {ENTRY.size}")
    events = [("begin",)]
    streams = {}  # of the live blocks
    uses = set()  # (block, stream)
    current = None
    for size, stream, block, thread, kind in ENTRY.iter_unpack(log):
        if kind == STEP:
            events.append(("step",))
            continue
        if kind not in (ALLOCATE, FREE, USE):
            raise BadLog(f"the log has an entry of kind {kind}")
        if (block in streams) == (kind == ALLOCATE):
            raise BadLog(f"block {block} is allocated twice, or freed or used without being live")
        if kind == USE and (stream == streams[block] or (block, stream) in uses):
            continue
        if thread != current:
            current = thread
            events.append(("thread", thread))
        if kind == ALLOCATE:
            streams[block] = stream
            events.append(("allocate", block, size, stream))
        elif kind == FREE:
            del streams[block]
            events.append(("free", block))
        else:
            uses.add((block, stream))
            events.append(("use", block, stream))
    return events
