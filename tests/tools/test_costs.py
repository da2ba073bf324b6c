# SPDX-License-Identifier: Apache-2.0
"""What costs.sh says of an account and of a driver that is slower, other in one case, or other in calls."""

import json
import pathlib
import subprocess
import tempfile
import unittest

COSTS = pathlib.Path(__file__).parents[2] / "tools" / "costs.sh"
ACCOUNT = {"8 GiB: in the driver": 2000, "8 GiB: calls": 680, "reserve: in the driver": 600, "trim: in the driver": 3000,
           "trim: calls": 200, "few: in the driver": 8, "few: calls": 12, "1 kernel: in the driver": 40,
           "100 kernels: in the driver": 200, "1 kernel: cuGraphLaunch": 9}
LAST = f"{len(ACCOUNT)} cases, "


class Costs(unittest.TestCase):
    def compare(self, pace, changes=None, account=ACCOUNT):
        """Status, the last two lines and all for a driver at this pace, with these figures changed; None: left out."""
        taken = {name: value if name.endswith("calls") else value * pace for name, value in ACCOUNT.items()}
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for name, figures in (("sim", account), ("cuda", {**taken, **(changes or {})})):
                files.append(pathlib.Path(folder) / name)
                files[-1].write_text("".join(json.dumps({"row": "growth", "variant": variant, "median": median}) + "\n"
                                             for variant, median in figures.items() if median is not None),
                                     encoding="utf-8")
            done = subprocess.run([COSTS, *files], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()[-2:], done.stdout

    def differs(self, case, *arguments, **more):
        status, _, said = self.compare(*arguments, **more)
        self.assertEqual(status, 1, said)
        self.assertRegex(said, rf"{case} .*DIFFERS")

    def test_a_driver_like_the_account_passes_at_any_pace_of_its_kind(self):
        for pace in (0.7, 1, 1.45, 1.49):
            status, last, said = self.compare(pace)
            self.assertEqual((status, last[1]), (0, LAST + "0 differ"), said)
            self.assertEqual(last[0], f"pace {pace:.2f}: a machine like the account's")

    def test_a_driver_of_another_kind_is_refused(self):
        for pace in (0.6, 1.6):
            status, last, said = self.compare(pace)
            self.assertEqual((status, last[1]), (1, LAST + "1 differ"), said)
            self.assertEqual(last[0], f"pace {pace:.2f}: NOT THE ACCOUNT'S MACHINE")

    def test_one_case_that_differs_from_the_others_is_named(self):
        for other in (2000 * 1.4 * 1.3, 2000 * 1.4 * 0.7):
            self.differs("8 GiB: in the driver", 1.4, {"8 GiB: in the driver": other})

    def test_two_kinds_of_cases_at_two_paces_are_no_pace(self):
        self.differs("8 GiB: in the driver", 1, {"8 GiB: in the driver": 3200, "trim: in the driver": 4800})

    def test_a_few_microseconds_are_nobodys_but_not_half_of_a_case(self):
        self.assertEqual(self.compare(1, {"few: in the driver": 11.9})[0], 0)
        self.differs("few: in the driver", 1, {"few: in the driver": 12.1})
        self.differs("few: in the driver", 1, {"few: in the driver": 3.9})
        self.differs("few: in the driver", 1, {"few: in the driver": 0})

    def test_calls_are_counted(self):
        self.assertEqual(self.compare(1, {"8 GiB: calls": 700})[0], 0)
        self.differs("trim: calls", 1, {"trim: calls": 215})

    def test_a_case_of_one_file_alone_differs(self):
        self.differs("few: in the driver", 1, {"few: in the driver": None})
        self.differs("8 GiB: calls", 1, {"8 GiB: calls": None})
        self.differs("few: in the driver", 1, account={**ACCOUNT, "few: in the driver": None})
        self.assertEqual(self.compare(1, {"1 kernel: cuGraphLaunch": None})[0], 0)

    def test_few_cases_are_too_few(self):
        few = dict.fromkeys(("8 GiB: in the driver", "reserve: in the driver"))
        status, last, said = self.compare(1, few, {**ACCOUNT, **few})
        self.assertEqual(status, 1, said)
        self.assertEqual(last[0], "pace 1.00: TOO FEW CASES")

    def test_nothing_to_compare_is_no_success(self):
        with tempfile.NamedTemporaryFile() as empty:
            self.assertEqual(subprocess.run([COSTS, empty.name, empty.name], capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main()
