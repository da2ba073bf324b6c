# SPDX-License-Identifier: Apache-2.0
"""run.sh of the traces, with players that only write down what they are asked for."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
RUN = ROOT / "tools" / "traces" / "run.sh"
PACKED = sorted(path.name[: -len(".columns.xz")] for path in (ROOT / "bench" / "traces").glob("*.columns.xz"))
RECORDED = ["decode", "diffusion", "training"]
TRACES_A_RUN = 16
PLAYER = """#!/bin/sh
echo "$(basename "$0")" "$@" >>"$CALLS"
"""


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.traces = self.folder / "traces"
        self.calls = self.folder / "calls"
        (self.folder / "bin").mkdir()
        self.traces.mkdir()
        for name in ("tarn_bench", "torch_trace"):
            (self.folder / "bin" / name).write_text(PLAYER)
            (self.folder / "bin" / name).chmod(0o755)
        # Nothing is recorded, whatever this machine has.
        (self.folder / "python" / "torch").mkdir(parents=True)
        (self.folder / "python" / "torch" / "__init__.py").write_text("raise ImportError")
        for name in RECORDED:
            (self.traces / f"{name}.trace").touch()
        (self.folder / "reports").mkdir()
        (self.folder / "reports" / "traces.jsonl").touch()

    def run_it(self, *words):
        environment = dict(os.environ, CALLS=str(self.calls), PYTHONDONTWRITEBYTECODE="1",
                           PYTHONPATH=str(self.folder / "python"),
                           TORCH_TRACE=str(self.folder / "bin" / "torch_trace"))
        done = subprocess.run([str(RUN), *words, str(self.folder)], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def replayed(self, begin):
        """The traces of each call that begins so."""
        calls = [line for line in self.calls.read_text().splitlines() if line.startswith(begin)]
        return [[pathlib.Path(word).stem for word in line.split() if word.endswith(".trace")] for line in calls]

    def test_each_allocator_replays_each_trace_once_and_no_run_has_too_many(self):
        self.run_it()
        for begin in ("tarn_bench --row recorded --trace", "torch_trace --only-traces --trace",
                      "torch_trace --only-traces --expandable --trace"):
            runs = self.replayed(begin)
            self.assertEqual(sorted(sum(runs, [])), sorted(PACKED + RECORDED))
            self.assertLessEqual(max(map(len, runs)), TRACES_A_RUN)

    def test_the_figures_are_compared_and_their_lack_is_a_failure(self):
        status, said = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("no figure of a recorded trace", said)

    def test_a_trace_that_is_there_is_neither_recorded_nor_unpacked(self):
        for name in PACKED:
            (self.traces / f"{name}.trace").write_bytes(b"of this machine")
        self.run_it("--record")
        self.assertEqual(len(self.replayed("tarn_bench")), 2)
        for name in PACKED:
            self.assertEqual((self.traces / f"{name}.trace").read_bytes(), b"of this machine")

    def test_asked_for_a_recording_nothing_is_unpacked(self):
        self.run_it("--record")
        self.assertEqual(self.replayed("tarn_bench"), [RECORDED])


if __name__ == "__main__":
    unittest.main()
