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

    def test_figures_of_adversaries_need_no_rival(self):
        for here, good in ((1.054, True), (1.056, False)):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                judged = hold.judge("t", {"t": {None: 1.05}}, {"t": {None: here}}, hold.MORE_OF_ADVERSARIES, False)
            self.assertEqual(judged, good)
            self.assertNotIn("best", said.getvalue())

    def test_no_traces_are_no_success(self):
        for more in ([], ["--pinned"]):
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(hold.main(["--bench", "b", "--driver", "d", "--traces", folder, *more]), 1)

    def test_traces_of_page_locked_memory_have_a_limit(self):
        for ratio, later, good in ((1.125, 1.2, True), (1.126, 1.1, False), (None, 1.0, False),
                                   (1.0, None, False)):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(hold.is_within("t", ratio, later), good)
            self.assertEqual("MORE" in said.getvalue(), not good and None not in (ratio, later))


BENCH = """#!/bin/sh
[ "$*" = "--out $2 --row adversaries" ] || exit 1
cp "{lines}" "$2"
"""


class Adversaries(unittest.TestCase):
    """With a benchmark that has measured already."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bench, self.recorded = self.folder / "bench", self.folder / "recorded.jsonl"
        self.bench.write_text(BENCH.format(lines=self.folder / "lines"))
        self.bench.chmod(0o755)

    def measure(self, figures, simulated=True):
        lines = [{"row": "adversaries", "variant": variant, "rival": rival, "median": median, "simulated": simulated}
                 for (variant, rival), median in figures.items()]
        (self.folder / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def hold(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = hold.main(["--adversaries", "--bench", str(self.bench), "--driver", "cuda", "--recorded",
                                str(self.recorded), *words])
        return status, said.getvalue()

    def test_what_was_recorded_is_held(self):
        self.measure({("a: reserved over requested", None): 1.5, ("a: event", None): 90})
        self.assertEqual(self.hold("--record")[0], 0)
        self.assertEqual(len(hold.read_lines(self.recorded)), 1)
        self.assertEqual(self.hold()[0], 0)
        self.measure({("a: reserved over requested", None): 1.506})
        self.assertEqual(self.hold(), (1, f"{'a':22} 1.5060, recorded 1.5000  MORE THAN RECORDED\n"))

    def test_a_case_that_is_new_or_gone_is_missing(self):
        self.measure({("a: reserved over requested", None): 1.5})
        self.hold("--record")
        self.measure({("b: reserved over requested", None): 1.5})
        self.assertEqual(self.hold(), (1, "a: MISSING a figure\nb: MISSING a figure\n"))

    def test_a_record_keeps_the_figures_that_were_not_measured_again(self):
        self.measure({("a: reserved over requested", None): 1.5, ("a: reserved over requested", "driver's"): 1.4})
        self.hold("--record")
        self.measure({("a: reserved over requested", None): 1.3})
        self.hold("--record")
        self.assertEqual(hold.ratios(self.recorded, "adversaries"), {"a": {None: 1.3, "driver's": 1.4}})

    def test_of_a_gpu_the_rivals_alone_are_recorded(self):
        self.measure({("a: reserved over requested", None): 1.5})
        self.hold("--record")
        figures = {("a: reserved over requested", None): 1.501, ("a: reserved over requested", "driver's"): 1.4}
        self.measure(figures, simulated=False)
        self.hold("--record")
        self.assertEqual(hold.ratios(self.recorded, "adversaries"), {"a": {None: 1.5, "driver's": 1.4}})

    def test_figures_of_recorded_traces_are_not_recorded_here(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            hold.main(["--record", "--bench", "b", "--driver", "d"])


if __name__ == "__main__":
    unittest.main()
