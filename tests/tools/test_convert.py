# SPDX-License-Identifier: Apache-2.0
"""The converter, on histories made by hand. What it writes is decoded here by docs/traces.md; that the
benchmark's reader agrees is seen by bench_recorded."""

import pathlib
import struct
import sys
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "traces"))

import convert  # noqa: E402

MIB = 1 << 20
MAIN, SIDE = 0, 0x5500


def alloc(address, size, stream=MAIN):
    return {"action": "alloc", "addr": address, "size": size, "stream": stream, "time_us": 1}


def requested(address, size, stream=MAIN):
    return {"action": "free_requested", "addr": address, "size": size, "stream": stream, "time_us": 2}


def completed(address, size, stream=MAIN):
    return {"action": "free_completed", "addr": address, "size": size, "stream": stream, "time_us": 3}


def freed(address, size, stream=MAIN):
    return [requested(address, size, stream), completed(address, size, stream)]


def note(address=0x9000):
    return [alloc(address, convert.NOTE_BYTES)] + freed(address, convert.NOTE_BYTES)


def segment(address, stream, *blocks):
    """blocks: (size, requested size, state), one behind the other."""
    made = [{"size": size, "requested_size": asked, "state": state} for size, asked, state in blocks]
    return {"device": 0, "address": address, "stream": stream, "blocks": made}


def snapshot(history, *segments):
    return {"segments": list(segments), "device_traces": [history]}


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7


def decode(data):
    """The header's fields, and the records in words."""
    assert data[:8] == b"\x89TARN\r\n\x1a"
    version, crc = struct.unpack_from("<II", data, 8)
    assert version in (1, 2) and crc == zlib.crc32(data[16:])
    names = ("allocations", "events", "peak", "reserved", "allocated", "streams", "sizes")
    header = dict(zip(names, struct.unpack_from("<QQQQQII", data, 16)))
    at = 64
    if version == 2:
        header["threads"] = struct.unpack_from("<I", data, at)[0]
        at += 4
    for field in ("name", "source", "device"):
        header[field] = data[at + 1 : at + 1 + data[at]].decode("ascii")
        at += 1 + data[at]
    sizes = []
    for _ in range(header["sizes"]):
        size, at = varint(data, at)
        sizes.append(size)
    header["sizes"] = sizes
    header["records_at"] = at
    records = []
    while at < len(data):
        value, at = varint(data, at)
        kind, value = value & 3, value >> 2
        if kind == 0:
            records.append(("allocate", sizes[value]))
        elif kind == 1:
            records.append(("free", value))
        elif kind == 2:
            stream, at = varint(data, at)
            records.append(("use", value, stream))
        else:
            records.append((("stream", "mark")[value & 1], value >> 1))
    return header, records


class History(unittest.TestCase):
    def test_allocations_and_frees_become_events(self):
        history = [alloc(0x1000, 100), alloc(0x2000, 5, SIDE)] + freed(0x1000, 100)
        self.assertEqual(
            convert.events_of(snapshot(history)),
            [
                ("begin",),
                ("allocate", 0x1000, 100, MAIN),
                ("allocate", 0x2000, 5, SIDE),
                ("free", 0x1000),
            ],
        )

    def test_what_is_no_allocation_is_passed_over(self):
        history = [
            {"action": "segment_map", "addr": 0x1000, "size": 2 * MIB, "stream": 0},
            alloc(0x1000, 100),
            {"action": "oom", "device_free": 7, "size": 9, "stream": 0},
            {"action": "snapshot", "addr": 0, "size": 100, "stream": 0},
            {"action": "segment_unmap", "addr": 0x9000, "size": 2 * MIB, "stream": 0},
        ]
        self.assertEqual(
            convert.events_of(snapshot(history)), [("begin",), ("allocate", 0x1000, 100, MAIN)]
        )

    def test_an_address_is_used_again_after_its_free(self):
        history = [alloc(0x1000, 100)] + freed(0x1000, 100) + [alloc(0x1000, 200)]
        self.assertEqual(len(convert.events_of(snapshot(history))), 4)

    def test_another_device_is_left_out(self):
        made = {"segments": [], "device_traces": [[alloc(0x1000, 1)], [alloc(0x2000, 2)]]}
        self.assertEqual(
            convert.events_of(made, device=1), [("begin",), ("allocate", 0x2000, 2, MAIN)]
        )
        self.assertEqual(convert.events_of(made, device=2), [("begin",)])

    def test_a_free_stands_where_the_memory_came_back(self):
        history = [alloc(0x1000, 100), requested(0x1000, 100), alloc(0x2000, 7), completed(0x1000, 100)]
        self.assertEqual(
            [event[0] for event in convert.events_of(snapshot(history))],
            ["begin", "allocate", "allocate", "free"],
        )

    def test_a_free_of_a_used_block_stands_where_it_was_requested(self):
        history = (
            [alloc(0x1000, 100)]
            + note()
            + [requested(0x1000, 100), alloc(0x2000, 7), completed(0x1000, 100)]
            + [alloc(0x1000, 8)]
        )
        self.assertEqual(
            convert.events_of(snapshot(history), notes=[("use", 0x1000, SIDE)]),
            [
                ("begin",),
                ("allocate", 0x1000, 100, MAIN),
                ("use", 0x1000, SIDE),
                ("free", 0x1000),
                ("allocate", 0x2000, 7, MAIN),
                ("allocate", 0x1000, 8, MAIN),
            ],
        )

    def test_uses_end_with_their_block(self):
        history = [alloc(0x1000, 100)] + note() + freed(0x1000, 100)
        history += [alloc(0x1000, 8), requested(0x1000, 8), alloc(0x2000, 7), completed(0x1000, 8)]
        events = convert.events_of(snapshot(history), notes=[("use", 0x1000, SIDE)])
        self.assertEqual(events[-2:], [("allocate", 0x2000, 7, MAIN), ("free", 0x1000)])

    def test_uses_that_say_nothing_are_left_out(self):
        history = [alloc(0x1000, 100)] + note() + note() + note()
        notes = [("use", 0x1000, MAIN), ("use", 0x1000, SIDE), ("use", 0x1000, SIDE)]
        events = convert.events_of(snapshot(history), notes=notes)
        self.assertEqual([event[0] for event in events], ["begin", "allocate", "use"])

    def test_notes_become_steps_and_leave_no_trace_of_themselves(self):
        history = note() + [alloc(0x1000, 100)] + note(0x3000)
        self.assertEqual(
            convert.events_of(snapshot(history), notes=[("step",), ("step",)]),
            [("begin",), ("step",), ("allocate", 0x1000, 100, MAIN), ("step",)],
        )

    def test_the_size_of_a_note_is_nothing_special_without_notes(self):
        self.assertEqual(len(convert.events_of(snapshot(note()))), 3)

    def test_the_address_of_a_note_is_used_again(self):
        history = note(0x1000) + [alloc(0x1000, 100)] + freed(0x1000, 100)
        events = convert.events_of(snapshot(history), notes=[("step",)])
        self.assertEqual([event[0] for event in events], ["begin", "step", "allocate", "free"])


class LivedBefore(unittest.TestCase):
    def test_blocks_of_the_first_snapshot_come_first_by_address(self):
        before = snapshot(
            [],
            segment(0x8000, SIDE, (512, 0, "inactive"), (512, 300, "active_allocated")),
            segment(0x1000, MAIN, (1024, 1000, "active_pending_free"), (512, 0, "inactive")),
            dict(segment(0x0, MAIN, (512, 9, "active_allocated")), device=1),
        )
        events = convert.events_of(snapshot([completed(0x1000, 1000)]), before=before)
        self.assertEqual(
            events,
            [
                ("allocate", 0x1000, 1000, MAIN),
                ("allocate", 0x8200, 300, SIDE),
                ("begin",),
                ("free", 0x1000),
            ],
        )

    def test_without_it_they_are_those_never_allocated(self):
        history = freed(0x5000, 40) + [alloc(0x5000, 50), alloc(0x6000, 60)]
        last = [segment(0x6000, MAIN, (512, 60, "active_allocated"), (512, 70, "active_allocated"))]
        self.assertEqual(
            convert.events_of(snapshot(history, *last)),
            [
                ("allocate", 0x5000, 40, MAIN),
                ("allocate", 0x6200, 70, MAIN),
                ("begin",),
                ("free", 0x5000),
                ("allocate", 0x5000, 50, MAIN),
                ("allocate", 0x6000, 60, MAIN),
            ],
        )

    def test_older_snapshots_have_no_requested_size(self):
        block = {"size": 512, "state": "active_allocated"}
        last = {"address": 0x1000, "stream": MAIN, "blocks": [block]}
        self.assertEqual(convert.events_of(snapshot([], last))[0], ("allocate", 0x1000, 512, MAIN))


class Refused(unittest.TestCase):
    def refuse(self, sentence, history, **options):
        with self.assertRaisesRegex(convert.Unconvertible, sentence):
            convert.events_of(snapshot(history), **options)

    def test_a_history_with_a_gap(self):
        self.refuse("allocated twice", [alloc(0x1000, 1), alloc(0x1000, 1)])
        self.refuse(
            "allocated twice",
            [alloc(0x1000, 1)] + note() + [requested(0x1000, 1), alloc(0x1000, 1)],
            notes=[("use", 0x1000, SIDE)],
        )
        before = snapshot([])
        self.refuse("0x1000 is freed, and was not live", freed(0x1000, 1), before=before)
        self.refuse("0x1000 comes back", [completed(0x1000, 1)], before=before)

    def test_notes_that_do_not_agree_with_the_history(self):
        self.refuse("more than the 1 notes", note() + note(), notes=[("step",)])
        self.refuse("has 1 of the 2 notes", note(), notes=[("step",), ("step",)])
        self.refuse("0x7000 is used, which is not live", note(), notes=[("use", 0x7000, SIDE)])
        self.refuse("no note 'pause'", note(), notes=[("pause", 1, 2)])


class Bytes(unittest.TestCase):
    def encode(self, events, **peaks):
        return convert.encode(events, "tiny", "a source", "a device", **peaks)

    def test_a_trace_says_what_its_events_say(self):
        events = [
            ("allocate", "model", 4 * MIB, MAIN),
            ("begin",),
            ("step",),
            ("allocate", "a", 700, SIDE),
            ("allocate", "b", 700, SIDE),
            ("use", "a", MAIN),
            ("free", "a"),
            ("step",),
            ("allocate", "a", 3, MAIN),
            ("free", "model"),
            ("free", "a"),
        ]
        header, records = decode(self.encode(events, reserved_peak=9, allocated_peak=8))
        del header["records_at"]
        self.assertEqual(
            header,
            {
                "allocations": 4,
                "events": 8,
                "peak": 4 * MIB + 1400,
                "reserved": 9,
                "allocated": 8,
                "streams": 2,
                "sizes": [700, 3, 4 * MIB],
                "name": "tiny",
                "source": "a source",
                "device": "a device",
            },
        )
        self.assertEqual(
            records,
            [
                ("allocate", 4 * MIB),
                ("mark", 0),
                ("mark", 1),
                ("stream", 1),
                ("allocate", 700),
                ("allocate", 700),
                ("use", 1, 0),
                ("free", 1),
                ("mark", 1),
                ("stream", 0),
                ("allocate", 3),
                ("free", 3),
                ("free", 0),
            ],
        )

    def test_threads_make_version_2(self):
        events = [
            ("begin",),
            ("thread", 77),
            ("allocate", "a", 700, MAIN),
            ("thread", 88),
            ("thread", 88),
            ("free", "a"),
            ("allocate", "b", 700, MAIN),
            ("thread", 77),
            ("use", "b", SIDE),
        ]
        data = self.encode(events)
        header, records = decode(data)
        self.assertEqual(data[8], 2)
        self.assertEqual((header["threads"], header["streams"]), (2, 2))
        self.assertEqual((header["name"], header["device"]), ("tiny", "a device"))
        self.assertEqual(
            records,
            [
                ("mark", 0),
                ("allocate", 700),
                ("mark", 3),
                ("free", 0),
                ("allocate", 700),
                ("mark", 2),
                ("use", 0, 1),
            ],
        )
        self.assertEqual(convert.summarize(events)["events"], 4)

    def test_without_threads_it_stays_version_1(self):
        self.assertEqual(self.encode([("begin",), ("allocate", 1, 10, 0)])[8], 1)

    def test_threads_that_do_not_fit_are_refused(self):
        events = [("begin",), ("allocate", 1, 10, 0)] + [("thread", i) for i in range(65)]
        self.assertEqual(decode(self.encode(events[:-1]))[0]["threads"], 64)
        with self.assertRaisesRegex(convert.Unconvertible, "there are 65 threads; 64 can be told"):
            self.encode(events)

    def test_typical_events_take_two_bytes(self):
        events = [("begin",)]
        for step in range(100):
            events += [("allocate", (step, i), 512 * (i + 1), MAIN) for i in range(200)]
            events += [("free", (step, i)) for i in reversed(range(200))]
        data = self.encode(events)
        header, records = decode(data)
        self.assertEqual(len(records), 40001)
        self.assertLess(len(data) - header["records_at"], 2 * 40001)

    def test_the_same_events_give_the_same_bytes(self):
        events = [("begin",), ("allocate", 1, 10, 0), ("allocate", 2, 20, 0)]
        self.assertEqual(self.encode(events), self.encode(list(events)))

    def test_texts_and_streams_that_do_not_fit_are_refused(self):
        one = [("begin",), ("allocate", 1, 10, 0)]
        for name in ("", "x" * 32, "naïve", "two\nlines"):
            with self.assertRaisesRegex(convert.Unconvertible, "the name has to be"):
                convert.encode(one, name, "s", "d")
        with self.assertRaisesRegex(convert.Unconvertible, "the source has to be"):
            convert.encode(one, "n", "s" * 64, "d")
        many = [("begin",)] + [("allocate", i, 10, i) for i in range(65)]
        with self.assertRaisesRegex(convert.Unconvertible, "there are 65 streams"):
            self.encode(many)
        with self.assertRaisesRegex(convert.Unconvertible, "there are 0 streams"):
            self.encode([("begin",)])

    def test_a_summary_counts_and_finds_the_peak(self):
        events = [("allocate", 1, 10, 0), ("begin",), ("step",), ("allocate", 2, 5, 0), ("free", 1)]
        self.assertEqual(
            convert.summarize(events + [("allocate", 1, 9, 0)]),
            {
                "allocations": 3,
                "frees": 1,
                "uses": 0,
                "steps": 1,
                "events": 4,
                "live_peak_bytes": 15,
            },
        )


if __name__ == "__main__":
    unittest.main()
