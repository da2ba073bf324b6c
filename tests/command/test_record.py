# SPDX-License-Identifier: Apache-2.0
"""tarn record: programs that close their device, that are killed, and that cannot be run."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

import test_command
from test_command import COMMAND, RECORDED


class Record(test_command.Case):
    def setUp(self):
        super().setUp()
        self.here = self.folder / "here"
        self.here.mkdir()

    def record(self, *arguments, status, conf=None):
        """What the command says of a run."""
        environment = dict(self.environment)
        environment.pop("TARN_CONF", None)
        if conf is not None:
            environment["TARN_CONF"] = conf
        done = subprocess.run([COMMAND, "record", *map(str, arguments)], capture_output=True, text=True,
                              env=environment, cwd=self.here, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def start_record(self, *arguments):
        """A run of the program that waits to be killed, and the program's process."""
        run = subprocess.Popen([COMMAND, "record", *map(str, arguments)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=self.environment, cwd=self.here)
        while not (line := run.stdout.readline()).startswith("scratch "):
            self.assertTrue(line, "the program has ended")
        process = int(pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text("ascii"))
        self.programs.append(run)
        self.addCleanup(run.stderr.close)
        self.addCleanup(subprocess.run, ["kill", "-9", str(process)], stderr=subprocess.DEVNULL, check=False)
        return run, process

    def test_a_device_that_was_closed_leaves_its_history(self):
        done = self.record("-o", "run.ring", "--", RECORDED, "brief", status=3)
        self.assertEqual(done.stderr, "tarn: recorded run.ring\n")
        self.assertEqual(os.listdir(self.here), ["run.ring"])
        self.assertEqual(list(self.folder.glob("*.ring")), [], "the program's own")
        path = self.here / "run.ring"
        told = json.loads(self.run_command("dump", path, "--json", "--events", 100)[0])
        kinds = [event["event"] for event in told["events"]]
        self.assertIn("allocated", kinds)
        self.assertIn("freed", kinds)

    def test_a_killed_program_leaves_its_history_with_stacks(self):
        run, process = self.start_record(RECORDED)
        os.kill(process, signal.SIGKILL)
        self.assertEqual(run.wait(60), 128 + signal.SIGKILL)
        path = self.here / f"tarn-{process}.ring"
        self.assertTrue(path.exists())
        text, _ = self.run_command("leaks", path)
        self.assertIn("leak_weights", text)
        self.assertLess(os.stat(path).st_blocks * 512, 16 << 20, "holes stay holes")

    def test_signals_that_end_the_command_end_the_program(self):
        run, _ = self.start_record("-o", "run.ring", RECORDED)
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 128 + signal.SIGTERM)
        self.assertIn("live blocks", self.run_command("leaks", self.here / "run.ring")[0])

    def test_each_device_has_a_file(self):
        self.environment["TARN_SIM_DEVICES"] = "2"
        run, process = self.start_record("-o", "run.ring", RECORDED, "two")
        os.kill(process, signal.SIGKILL)
        run.wait(60)
        self.assertEqual(sorted(os.listdir(self.here)), ["run.ring", "run.ring.2"])

    def test_the_settings_reach_the_program_beside_its_own(self):
        given = "history_bytes:none, limit_bytes:1G,roundup_power2_divisions:[64:8,>:1] ,history_stacks:frames"
        script = 'printf "%s" "$TARN_CONF"'
        done = self.record("--log", "1M", "--stacks", "caller", "--sample", "4K", "--", "sh", "-c", script,
                           conf=given, status=1)
        self.assertEqual(done.stdout, "history_bytes:1M,history_stacks:caller,history_sample_bytes:4K,"
                                      " limit_bytes:1G,roundup_power2_divisions:[64:8,>:1] ")
        done = self.record("sh", "-c", script, "--stacks", status=1)
        self.assertEqual(done.stdout, "history_bytes:64M,history_stacks:unwind")
        self.assertIn("has left no history", done.stderr)
        self.assertEqual(os.listdir(self.here), [])
        self.record("sh", "-c", "exit 5", status=5)

    def test_what_is_wrong_is_said_in_one_line(self):
        for arguments, said in (((), "needs a PROGRAM"), (("--log", "many", "true"), '"many"'),
                                (("--stacks", "all", "true"), '"all"'), (("--json", "true"), '"--json"'),
                                (("--log",), "needs a value")):
            done = self.record(*arguments, status=2)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("cannot be started", self.record("./nothing", status=127).stderr)
        self.assertIn("too long", self.record("true", conf="limit_bytes:" + 5000 * "1", status=2).stderr)

    def test_a_history_that_cannot_be_written_is_said(self):
        done = self.record("-o", "nowhere/run.ring", RECORDED, "brief", status=2)
        self.assertIn("nowhere/run.ring cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main()
