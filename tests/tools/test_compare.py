# SPDX-License-Identifier: Apache-2.0
"""What compare.py says is met, missed and missing."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "traces"))

import compare  # noqa: E402
import convert  # noqa: E402
import pack  # noqa: E402

FIRST = "event, first replay"
GOOD = {
    (compare.PEAK, "as recorded"): 12.5,
    ("event", None): 100,
    ("event", compare.DRIVER): 700,
    ("event", "PyTorch"): 900,
    ("event", compare.EXPANDABLE): 500,
    (FIRST, None): 200,
    (FIRST, compare.DRIVER): 500,
    (FIRST, "PyTorch"): 800,
    (FIRST, compare.EXPANDABLE): 900,
    (compare.MEMORY, None): 1.025,
    (compare.MEMORY, compare.DRIVER): 1.3,
    (compare.MEMORY, "PyTorch"): 1.2,
    (compare.MEMORY, compare.EXPANDABLE): 1.02,
}
ALL_MET = "1 traces; met: memory by 1, event by 1, first replay by 1, all by 1\n"


def trace_bytes(*more):
    events = [("begin",), ("allocate", 1, 700, 0), ("allocate", 2, 9000, 5), *more, ("free", 1)]
    return convert.encode(events, "t", "by hand", "no device")


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.traces = pathlib.Path(folder.name)
        (self.traces / "t.trace").write_bytes(trace_bytes())

    def run_on(self, changes, simulated=False, row="recorded"):
        """Status and text for the good figures with these changes; None leaves one out."""
        figures = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for (what, rival), median in figures.items():
                line = {"row": row, "variant": f"t: {what}", "rival": rival, "median": median}
                file.write(json.dumps({**line, "simulated": simulated}) + "\n")
            file.flush()
            with contextlib.redirect_stdout(io.StringIO()) as said:
                status = compare.main([file.name, "--traces", str(self.traces)])
        return status, said.getvalue()

    def expect(self, changes, memory=1, event=1, first=1):
        status, said = self.run_on(changes)
        self.assertEqual(status, 0 if memory and event and first else 1)
        self.assertTrue(said.endswith(f"memory by {memory}, event by {event}, first replay by {first}, "
                                      f"all by {int(status == 0)}\n"), said)
        return said

    def test_what_is_just_good_enough_is_met(self):
        status, said = self.run_on({})
        self.assertEqual(status, 0)
        self.assertTrue(said.endswith(ALL_MET), said)
        line = said.splitlines()[-2].split()
        self.assertEqual(line, ["t", "12.50", "1.0250", "1.3000", "1.2000", "1.0200", "1.0250", "met", "100.0",
                                "5.00", "5", "met", "2.50", "met"])

    def test_time_is_held_against_the_fastest(self):
        for rival in compare.RIVALS:
            said = self.expect({("event", rival): 499}, event=0)
            self.assertIn("4.99  5  missed", said)

    def test_uses_on_other_streams_lower_the_limit_of_time(self):
        for rival, met in ((300, 1), (299, 0)):
            (self.traces / "t.trace").write_bytes(trace_bytes(("use", 1, 5)))
            self.expect({("event", "PyTorch"): rival}, event=met)

    def test_a_trace_may_be_packed_or_missing(self):
        (self.traces / "t.trace").unlink()
        self.assertIn("no file of t", self.expect({("event", "PyTorch"): 300}, event=0))
        (self.traces / "t.columns.xz").write_bytes(pack.pack(trace_bytes(("use", 1, 5))))
        self.assertNotIn("no file", self.expect({("event", "PyTorch"): 300}))

    def test_the_first_replay_has_a_limit_of_its_own(self):
        self.assertIn("2.45  missed", self.expect({(FIRST, "PyTorch"): 490}, first=0))

    def test_memory_is_held_against_the_best_of_the_others(self):
        for rival in compare.RIVALS:
            self.expect({(compare.MEMORY, rival): 1.0199}, memory=0)

    def test_memory_is_held_against_a_limit_that_no_rival_lifts(self):
        others = {(compare.MEMORY, rival): 1.2 for rival in compare.RIVALS}
        self.expect({**others, (compare.MEMORY, None): 1.04})
        self.expect({**others, (compare.MEMORY, None): 1.0401}, memory=0)

    def test_what_was_not_measured_is_not_met(self):
        for rival in (None,) + compare.RIVALS:
            self.assertIn("missing", self.expect({("event", rival): None}, event=0))
            self.assertIn("missing", self.expect({(FIRST, rival): None}, first=0))
            self.assertIn("missing", self.expect({(compare.MEMORY, rival): None}, memory=0))

    def test_other_rows_are_no_traces(self):
        status, said = self.run_on({}, row="pair")
        self.assertEqual((status, said), (1, "no figure of a recorded trace\n"))

    def test_figures_of_the_simulator_are_named(self):
        self.assertIn("simulated driver", self.run_on({}, simulated=True)[1])

    def test_the_repository_has_every_figure_of_its_traces(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            compare.main([str(ROOT / "bench" / "results" / "traces.jsonl")])
        packed = len(list((ROOT / "bench" / "traces").glob("*.columns.xz")))
        self.assertIn(f"\n{packed} traces; met: ", said.getvalue())
        self.assertNotIn("missing", said.getvalue())
        self.assertNotIn("no file", said.getvalue())


if __name__ == "__main__":
    unittest.main()
