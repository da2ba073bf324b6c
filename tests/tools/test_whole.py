# SPDX-License-Identifier: Apache-2.0
"""whole.py, with a device that a list stands for, and programs that end at once."""

import argparse
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "traces"))

import whole  # noqa: E402

GIB = 1 << 30
# Says which configuration and which words it was given.
PROGRAM = """import json, os, sys
print(json.dumps({"conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF"), "words": sys.argv[1:]}))
"""


class Device:
    """2 GiB are taken before a run, then what a program of this number has; what the last readings say stays."""

    most = []

    def __init__(self):
        self.readings = []

    def bytes(self):
        if not self.readings:
            self.readings = [2 * GIB, *(2 * GIB + taken * GIB // 4 for taken in self.most.pop(0))]
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


class Whole(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, value in (("HERE", self.folder), ("SETTLE_SECONDS", 0), ("Taken", Device)):
            self.addCleanup(setattr, whole, name, getattr(whole, name))
            setattr(whole, name, value)
        (self.folder / "whole.py").write_text(PROGRAM)

    def measure(self, allocator, *taken):
        device = Device()
        device.most = [list(taken)]
        return whole.measure(device, "gpt2", allocator, "plugin.so")

    def test_the_most_counts_that_was_taken_beyond_what_was_taken_before(self):
        facts = self.measure(whole.TARN, 10, 4, 1)
        self.assertEqual((facts["program"], facts["allocator"], facts["taken_gib"]), ("gpt2", "Tarn", 2.5))

    def test_each_allocator_has_its_configuration(self):
        for allocator, conf in ((whole.TARN, None), (whole.PLAIN, None), (whole.ASYNC, "backend:cudaMallocAsync"),
                                (whole.EXPANDABLE, "expandable_segments:True")):
            facts = self.measure(allocator, 0)
            self.assertEqual(facts["conf"], conf)
            self.assertEqual("plugin.so" in facts["words"], allocator == whole.TARN)

    def judge(self, tarn, expandable):
        arguments = argparse.Namespace(only=["gpt2"], all=False, commit="abcdef0", out=self.folder / "lines.jsonl")
        runs = iter(({"taken_gib": tarn}, {"taken_gib": expandable}))
        self.addCleanup(setattr, whole, "measure", whole.measure)
        whole.measure = lambda *_: next(runs)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            good = whole.run_all(arguments, "plugin.so")
        self.assertEqual(said.getvalue(), arguments.out.read_text())
        self.assertEqual([json.loads(line)["commit"] for line in said.getvalue().splitlines()], ["abcdef0"] * 2)
        return good

    def test_tarn_may_take_as_much_as_expandable_segments(self):
        self.assertTrue(self.judge(2.0, 2.0))

    def test_tarn_may_not_take_more(self):
        self.assertFalse(self.judge(2.001, 2.0))

    def test_a_run_that_says_nothing_has_failed(self):
        (self.folder / "whole.py").write_text("")
        self.assertIn("error", self.measure(whole.TARN, 0))


if __name__ == "__main__":
    unittest.main()
