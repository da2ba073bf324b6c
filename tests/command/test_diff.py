# SPDX-License-Identifier: Apache-2.0
"""What the command tells of two histories: of two programs, and of one program at two moments.

TARN_COMMAND is the command, and TARN_RECORDED the program tests/command/recorded.c.
"""

import shutil
import unittest

from test_command import SMALL, Case, line_of


class Differences(Case):
    def test_what_a_program_has_more_is_told_by_pool_tag_and_stack(self):
        one, _ = self.start_killed()
        more, _ = self.start_killed("more")
        read = self.read_json("diff", one.pid, more.pid)
        self.assertEqual((read["blocks_before"], read["blocks_after"]), (4, 9))
        self.assertEqual([pool["pool"] for pool in read["pools"]], [1])
        tags = {tag["tag"]: tag for tag in read["tags"]}
        self.assertEqual((tags[77]["blocks_before"], tags[77]["blocks_after"]), (0, 5))
        first, *others = read["stacks"]
        self.assertIn("leak_more", [frame.get("function") for frame in first["frames"]])
        self.assertEqual((first["blocks_before"], first["blocks_after"]), (0, 5))
        # Stacks with other numbers, and from two processes, are the same stacks.
        self.assertEqual(len(others), 2)
        for other in others:
            self.assertEqual(other["bytes_before"], other["bytes_after"])
        text, _ = self.run_command("diff", self.file_of(one), more.pid)
        self.assertRegex(text, r"live blocks \+\S+ KiB: from 2\.9 MiB in 4 to 3\.0 MiB in 9\n")
        self.assertRegex(text, r"\ntag 77: \+\S+ KiB: from 0 B in 0 to \S+ KiB in 5\n")
        self.assertRegex(text, rf"leak_more at \S*recorded\.c:{line_of('leak_more')} in ")
        self.assertNotIn("leak_table", text)
        back, _ = self.run_command("diff", more.pid, one.pid)
        self.assertRegex(back, r"live blocks -\S+ KiB: from")
        self.assertIn("leak_more", back)

    def test_equal_moments_have_no_difference(self):
        program, _ = self.start_killed(conf=SMALL)
        copy = self.folder / "copy"
        shutil.copy(self.file_of(program), copy)
        self.run_command("diff", copy, program.pid, status=1)

    def test_one_of_two_that_is_no_history_is_named(self):
        program, _ = self.start_killed(conf=SMALL)
        other = self.folder / "other"
        other.write_bytes(b"nothing")
        self.assertIn("other is no history", self.refused("diff", program.pid, other))
        self.assertIn("other is no history", self.refused("diff", other, program.pid))
        self.assertIn("needs two", self.refused("diff", program.pid))
        report = self.folder / "report"
        self.refused("diff", program.pid, other, "-o", report)
        self.assertFalse(report.exists())


if __name__ == "__main__":
    unittest.main()
