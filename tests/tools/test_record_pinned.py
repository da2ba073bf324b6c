# SPDX-License-Identifier: Apache-2.0
"""The programs that ask for page-locked memory, tiny: what they take, copy and give is a trace, and the same in each
run."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "traces"))

import convert  # noqa: E402
import pack  # noqa: E402
import programs_pinned  # noqa: E402
import record_pinned  # noqa: E402

FOLDER = pathlib.Path(__file__).parents[2] / "bench" / "traces" / "pinned"


class Memory(unittest.TestCase):
    def setUp(self):
        self.memory = record_pinned.Memory()

    def test_what_is_taken_copied_and_given_is_told_in_order(self):
        self.memory.thread("main")
        buffer = self.memory.take(100)
        self.memory.copy(buffer, "in")
        self.memory.copy(buffer, "in")
        self.memory.copy(buffer, "out")
        self.memory.thread("main")
        self.memory.give([buffer])
        self.assertEqual(self.memory.events, [("begin",), ("thread", "main"), ("allocate", 0, 100, record_pinned.HOST),
                                              ("use", 0, "in"), ("use", 0, "out"), ("free", 0)])

    def test_a_buffer_is_given_once_and_not_used_afterwards(self):
        buffer = self.memory.take(1)
        self.memory.give([buffer])
        self.assertRaises(ValueError, self.memory.give, [buffer])
        self.assertRaises(ValueError, self.memory.copy, buffer, "in")

    def test_buffers_are_memory_of_their_size(self):
        buffer = self.memory.take(5000)
        self.assertEqual(len(buffer.bytes), 5000)
        self.assertEqual((buffer.bytes[0], buffer.bytes[4096]), (1, 1))


class Programs(unittest.TestCase):
    def test_each_makes_a_trace_and_the_same_one_again(self):
        for name in programs_pinned.PROGRAMS:
            events = record_pinned.record(name, tiny=True)
            self.assertEqual(events, record_pinned.record(name, tiny=True))
            sums = convert.summarize(events)
            self.assertGreater(sums["uses"], 0)
            self.assertGreater(sums["steps"], 0)
            convert.encode(events, name, "s", "d")

    def test_the_loader_gives_everything_back(self):
        sums = convert.summarize(record_pinned.record("pin_loader", tiny=True))
        self.assertEqual(sums["allocations"], sums["frees"])

    def test_the_store_keeps_its_limit(self):
        memory = record_pinned.Memory()
        store = programs_pinned.Store(memory, 100)
        for key in range(7):
            store.save(key, 30)
            store.load(0)
        self.assertEqual(sorted(store.pieces), [0, 5, 6])
        self.assertEqual(sum(buffer.size for buffer in memory.live.values()), 90)
        store.drop(5)
        store.drop(5)
        self.assertEqual((store.bytes, len(memory.live)), (60, 2))

    def test_conversations_share_their_beginning(self):
        first, second = (list(programs_pinned.pieces_of((name, "b", 20), {"b": 40}, 16, 2)) for name in "xy")
        self.assertEqual([size for _, size in first], [32, 32, 32, 24])
        self.assertEqual(first[:2], second[:2])
        self.assertNotEqual(first[2], second[2])


class Main(unittest.TestCase):
    def run_main(self, *words):
        with unittest.mock.patch.object(sys, "argv", ["record_pinned.py", *words]):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                status = record_pinned.main()
        return status, [json.loads(line) for line in said.getvalue().splitlines()]

    def test_a_dry_run_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            status, facts = self.run_main("--dry-run", "--out", folder)
            self.assertEqual((status, list(pathlib.Path(folder).iterdir())), (0, []))
        self.assertEqual([fact["trace"] for fact in facts], sorted(programs_pinned.PROGRAMS))

    def test_a_peak_below_256_mib_is_no_success(self):
        events = record_pinned.record("pin_loader", tiny=True)
        with tempfile.TemporaryDirectory() as folder:
            with unittest.mock.patch.object(record_pinned, "record", return_value=events):
                status, facts = self.run_main("--only", "pin_loader", "--out", folder)
            self.assertEqual(status, 1)
            self.assertEqual((pathlib.Path(folder) / "pin_loader.trace").stat().st_size, facts[0]["file_bytes"])

    def test_the_repository_has_these_very_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            packed = sorted(map(str, FOLDER.glob("*" + pack.SUFFIX)))
            self.assertEqual(pack.main(["unpack", *packed, "--to", folder]), 0)
            for name in programs_pinned.PROGRAMS:
                events = record_pinned.record(name)
                data = convert.encode(events, name, "requests for page-locked memory", "no device")
                self.assertEqual((pathlib.Path(folder) / f"{name}.trace").read_bytes(), data, name)
                self.assertGreaterEqual(convert.summarize(events)["live_peak_bytes"], record_pinned.PEAK_MIN)


if __name__ == "__main__":
    unittest.main()
