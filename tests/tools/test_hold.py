# SPDX-License-Identifier: Apache-2.0
"""What hold.py says of a trace that takes as much as recorded, more, or has no figure."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "traces"))

import hold  # noqa: E402

RECORDED = {"t": {None: 1.05, "PyTorch": 1.2, "cuMemAllocFromPoolAsync": 1.02}}


class Hold(unittest.TestCase):
    def judge(self, now, recorded=None):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            good = hold.judge("t", RECORDED if recorded is None else recorded, now)
        return good, said.getvalue()

    def test_as_much_as_recorded_is_good_and_the_best_rival_is_named(self):
        good, said = self.judge({"t": {None: 1.051}})
        self.assertTrue(good)
        self.assertIn("best 1.0200 (cuMemAllocFromPoolAsync)", said)

    def test_more_than_recorded_is_not(self):
        good, said = self.judge({"t": {None: 1.053}})
        self.assertFalse(good)
        self.assertIn("MORE THAN RECORDED", said)

    def test_a_figure_that_is_missing_is_named(self):
        for here, before in (({}, None), ({"t": {None: 1.05}}, {}), ({"t": {None: 1.05}}, {"t": {None: 1.05}}),
                              ({"t": {"PyTorch": 1.05}}, None)):
            self.assertEqual(self.judge(here, before), (False, "t: MISSING a figure\n"))

    def test_ratios_are_those_of_recorded_traces(self):
        lines = [{"row": "recorded", "variant": f"t: {hold.RATIO}", "rival": None, "median": 1.5},
                 {"row": "recorded", "variant": f"t: {hold.RATIO}, later", "rival": None, "median": 1.6},
                 {"row": "pair", "variant": f"t: {hold.RATIO}", "rival": None, "median": 1.7}]
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
            file.flush()
            self.assertEqual(hold.ratios(pathlib.Path(file.name)), {"t": {None: 1.5}})

    def test_no_traces_are_no_success(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(hold.main(["--bench", "b", "--driver", "d", "--traces", folder]), 1)


if __name__ == "__main__":
    unittest.main()
