# SPDX-License-Identifier: Apache-2.0
"""What compare.py says is met, missed and missing."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "traces"))

import compare  # noqa: E402

GOOD = {
    ("GiB requested at the peak", "as recorded"): 12.5,
    ("event", None): 100,
    ("event", "cuMemAllocFromPoolAsync"): 700,
    ("event", "PyTorch"): 900,
    ("event", compare.EXPANDABLE): 500,
    ("reserved over allocated", None): 1.02,
    ("reserved over allocated", compare.EXPANDABLE): 1.02,
}


class Compare(unittest.TestCase):
    def run_on(self, changes, simulated=False, row="recorded"):
        """Status and text for the good figures with these changes; None leaves one out."""
        figures = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for (what, rival), median in figures.items():
                line = {"row": row, "variant": f"t: {what}", "rival": rival, "median": median}
                file.write(json.dumps({**line, "simulated": simulated}) + "\n")
            file.flush()
            with contextlib.redirect_stdout(io.StringIO()) as said:
                status = compare.main([file.name])
        return status, said.getvalue()

    def test_what_is_just_good_enough_is_met(self):
        status, said = self.run_on({})
        self.assertEqual(status, 0)
        self.assertTrue(said.endswith("    met\n"), said)

    def test_time_is_held_against_the_fastest(self):
        for rival in compare.TIMED:
            status, said = self.run_on({("event", rival): 499})
            self.assertEqual(status, 1)
            self.assertIn("MISSED: time is 4.99 times better, not 5", said)

    def test_memory_is_held_against_expandable_segments(self):
        status, said = self.run_on({("reserved over allocated", None): 1.03})
        self.assertEqual(status, 1)
        self.assertIn("MISSED: memory is 1.0300, above 1.0200", said)

    def test_memory_of_small_traces_is_not_held_against_anything(self):
        small = {("GiB requested at the peak", "as recorded"): 7.9}
        self.assertEqual(self.run_on({**small, ("reserved over allocated", None): 9.0})[0], 0)

    def test_what_was_not_measured_is_not_met(self):
        for key, sentence in {
            ("event", None): "no time of Tarn",
            ("event", "PyTorch"): "no time of PyTorch",
            ("reserved over allocated", compare.EXPANDABLE): "no memory of PyTorch, expandable",
            ("GiB requested at the peak", "as recorded"): "no peak",
        }.items():
            status, said = self.run_on({key: None})
            self.assertEqual(status, 1)
            self.assertIn(f"MISSED: {sentence}", said)

    def test_other_rows_are_no_traces(self):
        status, said = self.run_on({}, row="pair")
        self.assertEqual((status, said), (1, "no figure of a recorded trace\n"))

    def test_figures_of_the_simulator_are_named(self):
        self.assertIn("simulated driver", self.run_on({}, simulated=True)[1])


if __name__ == "__main__":
    unittest.main()
