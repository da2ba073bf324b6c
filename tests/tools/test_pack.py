# SPDX-License-Identifier: Apache-2.0
"""Traces are packed and unpacked; bad files are refused."""

import contextlib
import io
import lzma
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "traces"))

import convert  # noqa: E402
import pack  # noqa: E402

EVENTS = [("allocate", 1, 700, 0), ("allocate", 2, 90000, 0), ("begin",), ("allocate", 3, 700, 5),
          ("use", 1, 5), ("step",), ("free", 3), ("allocate", 4, 1 << 46, 0), ("use", 2, 5), ("free", 1),
          ("allocate", 5, 513, 5), ("free", 5), ("step",), ("free", 2)]
THREADS = [("begin",), ("thread", 7), *EVENTS[:2], ("thread", 9), ("free", 1), ("thread", 7), ("free", 2)]
# Block 0 is old when it is freed: its distance takes two bytes, its rank one.
OLD = [("begin",), ("allocate", 0, 1 << 20, 0)]
for key in range(1, 300):
    OLD += [("allocate", key, 512 * key, 0), ("free", key)]
OLD += [("allocate", 300, 8, 0), ("free", 0)]


def trace_of(events):
    return convert.encode(events, "t", "by hand", "no device")


def summed(trace):
    """With the checksum of its bytes."""
    return trace[:12] + struct.pack("<I", zlib.crc32(trace[16:])) + trace[16:]


def with_records(*records, allocations=1, events=2, sizes=b"\x08", size_count=1):
    head = convert.MAGIC + struct.pack("<IIQQQQQII", 1, 0, allocations, events, 8, 0, 0, 1, size_count)
    return summed(head + b"\1t\1s\1d" + sizes + bytes(records))


# What with_records has before its records, and a block allocated, the begin, the block freed.
ALLOCATE, BEGIN, FREE = 0, 7, 1
TRACE = with_records(ALLOCATE, BEGIN, FREE)
RUNS = 70 + pack.SIZE_BYTES
# Three runs of length 1: allocate, other, free; then a place, a rank, and the mark.
NUMBERS = [3, 0, 3, 1, 0, 0, 1]


class Pack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_main(self, *words):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            status = pack.main([str(word) for word in words])
        return status, said.getvalue()

    def refuse(self, sentence, packed):
        with self.assertRaisesRegex(pack.Refused, sentence):
            pack.unpack(packed)

    def refuse_columns(self, sentence, columns):
        self.refuse(sentence, lzma.compress(columns))

    def refuse_trace(self, sentence, trace):
        with self.assertRaisesRegex(pack.Refused, sentence):
            pack.pack(trace)

    def test_a_trace_comes_back_as_it_was(self):
        for events in (EVENTS, THREADS, OLD):
            (self.folder / "a.trace").write_bytes(trace_of(events))
            self.assertEqual(self.run_main("pack", self.folder / "a.trace", "--to", self.folder / "x"), (0, ""))
            self.assertEqual(
                self.run_main("unpack", self.folder / "x" / "a.columns.xz", "--to", self.folder / "y"), (0, "")
            )
            self.assertEqual((self.folder / "y" / "a.trace").read_bytes(), trace_of(events))
        self.assertEqual(pack.unpack(pack.pack(TRACE)), TRACE)
        empty = with_records(allocations=0, events=0, sizes=b"", size_count=0)
        self.assertEqual(pack.unpack(pack.pack(empty)), empty)

    def test_the_repository_has_the_columns_that_pack_makes(self):
        stored = sorted((ROOT / "bench" / "traces").glob("*" + pack.SUFFIX))
        self.assertEqual(len(stored), 19)
        for path in stored:
            columns = lzma.decompress(path.read_bytes())
            self.assertEqual(pack.columns_of(pack.unpack(path.read_bytes())), columns, path.name)

    def test_the_same_trace_gives_the_same_bytes(self):
        self.assertEqual(pack.pack(trace_of(EVENTS)), pack.pack(trace_of(EVENTS)))

    def test_an_old_block_is_freed_by_a_small_rank(self):
        self.assertEqual(pack.columns_of(trace_of(OLD))[-2:], b"\1\1")  # the last free's rank, and the mark

    def test_columns_are_what_the_page_says(self):
        self.assertEqual(pack.columns_of(TRACE), TRACE[:70] + b"\x08\0\0\0\0\0" + bytes(NUMBERS))
        two = with_records(0, 4, BEGIN, FREE, allocations=2, events=3, sizes=b"\x81\x02\x82\x04", size_count=2)
        self.assertEqual(pack.columns_of(two)[70:82], b"\1\2\1\2" + bytes(8))

    def test_bad_files_are_refused(self):
        packed = pack.pack(trace_of(EVENTS))
        self.refuse("is damaged", b"no xz at all")
        self.refuse("is damaged", packed[:60] + bytes([packed[60] ^ 1]) + packed[61:])
        self.refuse("is cut off", packed[:-1])
        self.refuse("bytes behind its end", packed + b"\0\0\0\0")
        self.refuse("unpacks to more", lzma.compress(bytes(pack.COLUMNS_MAX + 1)))

    def test_bad_columns_are_refused(self):
        head = pack.columns_of(TRACE)[:RUNS]
        counted = NUMBERS[:4]
        self.refuse_columns("is no trace", b"x" * 200)
        self.refuse_columns("longer than needed or than 64 bits", head + b"\xff" * 9 + b"\2")
        self.refuse_columns("ends within a number", head + bytes(NUMBERS[:-1]) + b"\x80")
        self.refuse_columns("longer than needed", head + bytes(NUMBERS[:-1]) + b"\x81\0")
        self.refuse_columns("has 4 numbers, and its 3 records need 3", head + bytes(NUMBERS) + b"\0")
        self.refuse_columns("fewer numbers than records", head + bytes(NUMBERS[:-1]))
        self.refuse_columns("fewer numbers than records", head + b"\1" + b"\xff" * 9 + b"\1" + b"\0\0\0")
        self.refuse_columns("fewer numbers than records", head + b"\xff" * 9 + b"\1" + bytes(NUMBERS[1:]))
        self.refuse_columns("2 allocations of 2 events, and promises 1 of 2", head + b"\2\4\3\0\0\1")
        self.refuse_columns("is not live", head + bytes(counted) + b"\0\1\1")
        self.refuse_columns("is not live", head + bytes(counted) + b"\0" + b"\xff" * 9 + b"\1" + b"\1")
        self.refuse_columns("its checksum", head + bytes(counted) + b"\1\0\1")
        self.refuse_columns("ends within its sizes", head[:60] + b"\xff" * 4 + head[64:] + bytes(NUMBERS))

    def test_any_cut_and_any_changed_byte_of_columns_is_refused(self):
        columns = pack.columns_of(trace_of(EVENTS))
        for at in range(len(columns)):
            for bad in (columns[:at], *(columns[:at] + bytes([columns[at] ^ bits]) + columns[at + 1:]
                                        for bits in (1, 3, 0x80, 0xFF))):
                with self.assertRaises(pack.Refused, msg=at):
                    pack.trace_of(bad)

    def test_what_is_no_trace_is_refused(self):
        good = trace_of(EVENTS)
        self.refuse_trace("is no trace", b"")
        self.refuse_trace("is no trace", bytes(range(256)) * 40)
        self.refuse_trace("has version 3", good[:8] + b"\3" + good[9:])
        self.refuse_trace("ends within its texts", good[:68] + b"\x3f")
        self.refuse_trace("its checksum", good[:-1])
        self.refuse_trace("its checksum", good + b"\0")
        self.refuse_trace("are allowed", good + bytes(pack.TRACE_MAX))
        self.refuse_trace("ends within its sizes", with_records(size_count=2))
        self.refuse_trace("that no device holds", with_records(sizes=b"\x80" * 6 + b"\x40"))
        self.refuse_trace("1 allocations of 2 events, and promises 1 of 3", with_records(0, BEGIN, FREE, events=3))
        self.refuse_trace("ends within a number", with_records(0, BEGIN, FREE, 0x80))
        self.refuse_trace("records need 4", with_records(0, BEGIN, 2))  # a use without its stream
        self.refuse_trace("longer than needed", with_records(0x80, 0, BEGIN, FREE))

    def test_a_block_that_is_not_live_is_refused(self):
        self.refuse_trace("is not live", with_records(0, BEGIN, FREE + 4))  # before the first
        self.refuse_trace("is not live", with_records(0, BEGIN, FREE, FREE, events=3))
        self.refuse_trace("is not live", with_records(0, 0, BEGIN, FREE, FREE, allocations=2, events=4))
        self.refuse_trace("is not live", with_records(0, BEGIN, 2 + 4, 0))
        many = [0] * (pack.LIVE_MAX + 1)
        self.refuse_trace("blocks live", with_records(*many, BEGIN, allocations=len(many), events=len(many)))

    def test_one_bad_file_does_not_stop_the_others(self):
        (self.folder / "a.columns.xz").write_bytes(b"no xz at all")
        (self.folder / "b.trace").write_bytes(b"no suffix")
        (self.folder / "c.columns.xz").write_bytes(pack.pack(TRACE))
        files = sorted(self.folder.iterdir())
        status, said = self.run_main("unpack", *files, "--to", self.folder / "y")
        self.assertEqual(status, 1)
        self.assertIn("a.columns.xz: is damaged", said)
        self.assertIn("b.trace: does not end in .columns.xz", said)
        self.assertEqual([path.name for path in (self.folder / "y").iterdir()], ["c.trace"])

    def test_too_much_for_the_repository_is_refused(self):
        (self.folder / "old.columns.xz").write_bytes(bytes(pack.PACKED_MAX))
        (self.folder / "a.trace").write_bytes(TRACE)
        status, said = self.run_main("pack", self.folder / "a.trace", "--to", self.folder)
        self.assertEqual(status, 1)
        self.assertIn("3000000 are allowed", said)


if __name__ == "__main__":
    unittest.main()
