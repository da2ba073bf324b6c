# SPDX-License-Identifier: Apache-2.0
"""What the command shows of a process while it runs: in a file, and on terminals of two sizes.

TARN_COMMAND is the command, and TARN_RECORDED the program tests/command/recorded.c.
"""

import fcntl
import os
import re
import struct
import subprocess
import termios
import time
import unittest

from test_command import COMMAND, SMALL, Case

ESCAPES = re.compile(r"\x1b\[[?0-9]*[A-Za-z]")


class Tops(Case):
    def watch(self, program, columns, rows, keys=None):
        """The command on a terminal, and the terminal's other end. keys: where keys come from instead."""
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        command = subprocess.Popen([COMMAND, "top", str(program.pid)], stdin=keys or slave, stdout=slave,
                                   stderr=slave, env=self.environment)
        os.close(slave)
        self.addCleanup(os.close, master)
        self.addCleanup(command.wait)
        self.addCleanup(command.kill)
        return command, master

    def read_picture(self, master, mark):
        text = ""
        while "\x1b[J" not in text or mark not in text:
            text += os.read(master, 65536).decode()
        return text

    def test_one_picture_goes_to_a_file(self):
        program, _ = self.start("more")
        text, _ = self.run_command("top", program.pid)
        self.assertRegex(text, rf"\A{program.pid} runs \w+\n3\.0 MiB in 9 blocks\n")
        self.assertRegex(text, r"\n +3\.0 MiB +9 pool 1\n")
        self.assertRegex(text, r"\n +100\.0 KiB +5 tag 77\n")
        self.assertRegex(text, r"\n +2\.9 MiB +3 allocate at .*leak_weights")
        self.assertIn("\n1 graphs, 0 captures open\n", text)
        self.kill(program)
        self.assertIn(" has ended ", self.run_command("top", program.pid)[0])

    def test_rates_are_those_of_the_last_second(self):
        program, _ = self.start_killed("churn", "1000")
        rates = re.search(r"\n(\d+)/s new, (\d+)/s freed, \d+/s replays\n",
                          self.run_command("top", program.pid)[0])
        self.assertGreaterEqual(int(rates.group(1)), 100)
        self.assertGreaterEqual(int(rates.group(2)), 99)

    def test_a_terminal_of_20_columns_is_never_passed(self):
        program, _ = self.start("more")
        command, master = self.watch(program, 20, 8)
        text = self.read_picture(master, "runs")
        lines = ESCAPES.sub("", text[:text.index("\x1b[J")]).split("\r\n")
        self.assertEqual(len(lines), 8)  # behind the last line break there is nothing
        self.assertLessEqual(max(map(len, lines)), 20)
        os.write(master, b"q")
        self.assertEqual(command.wait(60), 0)

    def test_a_process_that_ends_is_told_and_ends_it(self):
        program, _ = self.start()
        command, master = self.watch(program, 100, 40)
        self.read_picture(master, "runs")
        self.kill(program)
        self.read_picture(master, "has ended")
        self.assertEqual(command.wait(60), 0)

    def test_without_keys_pictures_come_as_slowly(self):
        program, _ = self.start("more")
        for keys in self.no_keys():
            command, master = self.watch(program, 100, 40, keys)
            begin = time.monotonic()
            text = ""
            while text.count("\x1b[J") < 4:
                text += os.read(master, 65536).decode()
            self.assertGreater(time.monotonic() - begin, 1)
            command.terminate()
            self.assertEqual(command.wait(60), 0)

    def no_keys(self):
        """A pipe that nobody writes to any more, and a file without a byte."""
        reader, writer = os.pipe()
        os.close(writer)
        with open(reader, "rb") as pipe, open(os.devnull, "rb") as empty:
            yield pipe
            yield empty

    def test_what_is_no_history_is_refused(self):
        other = self.folder / "other"
        other.write_bytes(b"nothing")
        self.assertIn("no history", self.refused("top", other))
        program, _ = self.start_killed(conf=SMALL)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([COMMAND, "top", str(program.pid)], stdout=full, stderr=subprocess.PIPE,
                                  env=self.environment, check=False)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
