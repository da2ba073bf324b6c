# SPDX-License-Identifier: Apache-2.0
"""The recorder of programs: its log becomes events, its library gives out memory of the simulated driver (TARN_DRIVER
names it; without it these tests are skipped), and programs are recorded some at a time."""

import argparse
import contextlib
import ctypes
import io
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

TRACES = pathlib.Path(__file__).parents[2] / "tools" / "traces"
sys.path.insert(0, str(TRACES))

import convert  # noqa: E402
import record_programs  # noqa: E402
import recorder_log  # noqa: E402
import recording  # noqa: E402
from recorder_log import ALLOCATE, FREE, STEP, USE  # noqa: E402

MIB = 1 << 20
MAIN, SIDE = 0, 0x5500


def log(*entries):
    """entries: (kind, block, thread, bytes, stream), the last ones 0 where they are left out."""
    written = b""
    for entry in entries:
        kind, block, thread, size, stream = (entry + (0,) * 5)[:5]
        written += recorder_log.ENTRY.pack(size, stream, block, thread, kind)
    return written


class Log(unittest.TestCase):
    def test_entries_become_events_with_their_threads(self):
        events = recorder_log.events_of(
            log(
                (STEP, 0, 1),
                (ALLOCATE, 0, 1, 100, MAIN),
                (ALLOCATE, 1, 1, 7, SIDE),
                (USE, 1, 2, 0, MAIN),
                (FREE, 0, 2),
                (STEP, 0, 1),
                (FREE, 1, 1),
            )
        )
        self.assertEqual(
            events,
            [
                ("begin",),
                ("step",),
                ("thread", 1),
                ("allocate", 0, 100, MAIN),
                ("allocate", 1, 7, SIDE),
                ("thread", 2),
                ("use", 1, MAIN),
                ("free", 0),
                ("step",),
                ("thread", 1),
                ("free", 1),
            ],
        )

    def test_uses_that_say_nothing_are_left_out(self):
        events = recorder_log.events_of(
            log((ALLOCATE, 0, 1, 9, MAIN), (USE, 0, 1, 0, MAIN), (USE, 0, 1, 0, SIDE), (USE, 0, 1, 0, SIDE))
        )
        self.assertEqual([event[0] for event in events], ["begin", "thread", "allocate", "use"])

    def test_a_bad_log_is_refused(self):
        good = log((ALLOCATE, 0, 1, 9))
        for bad, sentence in (
            (good[:-1], "has 23 bytes"),
            (good + good, "block 0 is allocated twice"),
            (log((FREE, 0, 1)), "freed or used without being live"),
            (log((USE, 3, 1, 0, SIDE)), "block 3"),
            (good + log((FREE, 0, 1), (FREE, 0, 1)), "block 0"),
            (log((4, 0, 1)), "an entry of kind 4"),
        ):
            with self.assertRaisesRegex(recorder_log.BadLog, sentence):
                recorder_log.events_of(bad)


class Library(unittest.TestCase):
    """Each test has a library of its own: its state is the process's."""

    def setUp(self):
        driver = os.environ.get("TARN_DRIVER")
        if not driver:
            self.skipTest("TARN_DRIVER names no driver")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.calls = ctypes.CDLL(str(record_programs.build(pathlib.Path(self.folder.name))))
        self.calls.recorder_open.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        self.calls.recorder_open.restype = ctypes.c_bool
        self.calls.recorder_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.calls.recorder_alloc.restype = ctypes.c_void_p
        self.calls.recorder_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.calls.recorder_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.calls.recorder_write.argtypes = [ctypes.c_char_p]
        self.calls.recorder_write.restype = ctypes.c_bool
        self.calls.recorder_slab_bytes.restype = ctypes.c_uint64
        self.calls.recorder_synchronizations.restype = ctypes.c_uint64
        self.assertTrue(self.calls.recorder_open(driver.encode(), 64 * MIB))

    def alloc(self, size, stream=MAIN):
        return self.calls.recorder_alloc(size, 0, stream)

    def free(self, address, stream=MAIN):
        self.calls.recorder_free(address, 0, 0, stream)

    def events(self):
        path = pathlib.Path(self.folder.name) / "log"
        self.assertTrue(self.calls.recorder_write(str(path).encode()))
        return recorder_log.events_of(path.read_bytes())

    def test_memory_of_a_stream_is_used_again_at_once(self):
        first = self.alloc(20 * MIB)
        self.free(first)
        self.assertEqual(self.alloc(30 * MIB), first)
        self.assertEqual(self.calls.recorder_synchronizations(), 0)

    def test_memory_of_another_stream_waits_for_the_device(self):
        first = self.alloc(60 * MIB)
        self.free(first)
        self.assertEqual(self.alloc(60 * MIB, SIDE), first)
        self.assertEqual(self.calls.recorder_synchronizations(), 1)
        self.assertEqual(self.calls.recorder_slab_bytes(), 64 * MIB)

    def test_a_used_block_waits_for_the_device(self):
        first = self.alloc(64 * MIB)
        self.calls.recorder_record_stream(first, SIDE)
        self.free(first)
        self.assertEqual(self.alloc(64 * MIB), first)
        self.assertEqual(self.calls.recorder_synchronizations(), 1)
        self.assertEqual([event[0] for event in self.events()][2:], ["allocate", "use", "free", "allocate"])

    def test_neighbours_become_one_block(self):
        blocks = [self.alloc(16 * MIB) for _ in range(4)]
        for i in (0, 2, 1, 3):
            self.free(blocks[i])
        self.assertEqual(self.alloc(64 * MIB), min(blocks))
        self.assertEqual(self.calls.recorder_slab_bytes(), 64 * MIB)

    def test_nothing_is_neither_given_nor_logged(self):
        self.assertIsNone(self.alloc(0))
        self.free(None)
        self.calls.recorder_record_stream(None, SIDE)
        self.assertEqual(self.events(), [("begin",)])

    def test_a_driver_that_is_not_there_is_refused(self):
        self.assertFalse(self.calls.recorder_open(b"libnowhere.so", 64 * MIB))

    def test_blocks_of_threads_never_overlap(self):
        live, lock, failures = {}, threading.Lock(), []

        def run(seed):
            numbers = random.Random(seed)
            own = []
            for _ in range(400):
                if own and numbers.random() < 0.5:
                    address = own.pop(numbers.randrange(len(own)))
                    with lock:
                        del live[address]
                    self.free(address, seed)
                    continue
                size = int(2 ** numbers.uniform(0, 22))
                address = self.alloc(size, seed)
                with lock:
                    for other, length in live.items():
                        if address < other + length and other < address + size:
                            failures.append((address, other))
                    live[address] = size
                own.append(address)

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        events = self.events()
        self.assertEqual(convert.summarize(events)["events"], 1600)
        self.assertEqual(len({event[1] for event in events if event[0] == "thread"}), 4)
        self.assertEqual(convert.encode(events, "threads", "s", "d")[8], 2)


class Recording(unittest.TestCase):
    def test_those_that_are_asked_for_or_missing_are_chosen(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "a.trace").touch()
            for only, missing, chosen in (
                (None, False, ["a", "b"]),
                (None, True, ["b"]),
                (["a"], False, ["a"]),
                (["a"], True, []),
            ):
                arguments = argparse.Namespace(only=only, missing=missing, out=folder)
                self.assertEqual(recording.chosen(arguments, ["a", "b"]), chosen)

    def tell(self, record):
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()):
            failed = recording.tell("a", record)
        return failed, recording.heard("a", said.getvalue().encode(), 0)

    def test_facts_are_heard_as_they_were_told(self):
        self.assertEqual(self.tell(lambda: {"trace": "a", "steps": 3}), (False, {"trace": "a", "steps": 3}))

    def test_a_failure_is_told_with_its_sentence(self):
        def fail():
            raise recording.Failed("as the test wants")

        self.assertEqual(self.tell(fail), (True, {"trace": "a", "error": "Failed: as the test wants"}))

    def test_silence_is_a_failure(self):
        for said in (b"", b"no json"):
            self.assertEqual(
                recording.heard("a", said, 9), {"trace": "a", "error": "ended with status 9, and said nothing"}
            )

    def test_a_dry_run_counts_steps(self):
        seen = []

        def workload(device, scale, notes, tiny):
            seen.append((device, scale, tiny))
            notes.step()
            notes.use(None, None)

        torch = types.SimpleNamespace(manual_seed=lambda seed: None, device=lambda name: name)
        with unittest.mock.patch.dict(sys.modules, torch=torch):
            facts = recording.dry_run("a", workload)
        self.assertEqual(facts, {"trace": "a", "dry_run": True, "steps": 1})
        self.assertEqual(seen, [("cpu", recording.DRY_RUN_SCALE, True)])


class FakeChild:
    """A process that ends at its second look, with facts that a test chose."""

    facts = {}
    started = []
    running = 0
    most = 0

    def __init__(self, name, scale, arguments, library, end):
        self.name, self.scale, self.looks = name, scale, 0
        self.gib = record_programs.gib_of(name, scale)
        FakeChild.started.append((name, scale))
        FakeChild.running += 1
        FakeChild.most = max(FakeChild.most, FakeChild.running)

    def poll(self):
        self.looks += 1
        if self.looks < 2:
            return None
        FakeChild.running -= 1
        peak = FakeChild.facts.get(self.name, 3 << 30)
        if peak is None:
            return {"trace": self.name, "error": "as the test wants"}
        return {"trace": self.name, "scale": self.scale, "live_peak_bytes": int(peak * self.scale)}


class All(unittest.TestCase):
    def setUp(self):
        FakeChild.facts, FakeChild.started, FakeChild.running, FakeChild.most = {}, [], 0, 0
        for name, value in (("Child", FakeChild), ("POLL_SECONDS", 0)):
            self.addCleanup(setattr, record_programs, name, getattr(record_programs, name))
            setattr(record_programs, name, value)

    def run_all(self, only=None, jobs=3):
        arguments = argparse.Namespace(jobs=jobs, scale=1.0, dry_run=False)
        names = only or sorted(record_programs.SLABS)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            failures = record_programs.run_all(arguments, names, None)
        return failures, [json.loads(line) for line in said.getvalue().splitlines()]

    def test_each_program_is_recorded_once_and_no_more_than_fit_at_a_time(self):
        failures, lines = self.run_all()
        self.assertEqual(failures, 0)
        self.assertEqual(sorted(line["trace"] for line in lines), sorted(record_programs.SLABS))
        self.assertEqual(len(FakeChild.started), len(record_programs.SLABS))
        self.assertEqual(FakeChild.most, 3)

    def test_budgets_keep_programs_apart(self):
        self.addCleanup(setattr, record_programs, "DEVICE_GIB", record_programs.DEVICE_GIB)
        record_programs.DEVICE_GIB = 1
        self.assertEqual(self.run_all()[0], 0)
        self.assertEqual(FakeChild.most, 1)

    def test_a_failure_does_not_stop_the_others(self):
        FakeChild.facts = {"gpt2": None}
        failures, lines = self.run_all(["gpt2", "speech", "graphs"], 1)
        self.assertEqual(failures, 1)
        self.assertEqual([line["trace"] for line in lines], ["gpt2", "speech", "graphs"])

    def test_a_low_peak_is_recorded_once_more_and_larger(self):
        FakeChild.facts = {"graphs": 1 << 20}
        failures, lines = self.run_all(["graphs"])
        self.assertEqual(failures, 0)
        self.assertEqual(FakeChild.started, [("graphs", 1.0), ("graphs", record_programs.SCALE_MORE_MAX)])
        self.assertEqual(len(lines), 1)

    def test_the_tables_name_the_same_programs(self):
        named = set()
        for part in ("serving", "training", "images"):
            named.update(re.findall(r'^    "(\w+)": \w+,$', (TRACES / f"programs_{part}.py").read_text(), re.M))
        self.assertEqual(named, set(record_programs.SLABS))
        page = (TRACES.parents[1] / "docs" / "traces.md").read_text()
        self.assertEqual(named - set(re.findall(r"^\| `(\w+)` \|", page, re.M)), set())


if __name__ == "__main__":
    unittest.main()
