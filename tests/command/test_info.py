# SPDX-License-Identifier: Apache-2.0
"""What the command says of the driver and of devices: two simulated ones, and none.

TARN_COMMAND is the command, and TARN_RECORDED the program tests/command/recorded.c.
"""

import unittest

from test_command import Case


class Infos(Case):
    def test_each_device_is_told(self):
        self.environment["TARN_SIM_DEVICES"] = "2"
        read = self.read_json("info")
        self.assertEqual([device["device"] for device in read["devices"]], [0, 1])
        for device in read["devices"]:
            self.assertTrue(device["simulated"])
            self.assertIsNone(device["refusal"])
            self.assertGreater(device["total_bytes"], 1 << 20)
            self.assertGreater(device["reserved_bytes"], device["total_bytes"])
        text, _ = self.run_command("info")
        self.assertRegex(text, r"\Alibrary   \d+\.\d+\.\d+\n\ndevice 0  .*, .* [GT]iB\ndriver    \d+\.\d+, ")
        self.assertIn("\ndevice 1  ", text)
        self.assertEqual(list(self.folder.iterdir()), [])  # no history is left

    def test_settings_are_those_of_a_program(self):
        self.environment["TARN_CONF"] = "history_bytes:none"
        self.assertEqual(self.read_json("info")["devices"][0]["history_bytes"], 0)
        self.environment["TARN_CONF"] = "nonsense:1"
        _, said = self.run_command("info", status=1)
        self.assertIn("nonsense", said)

    def test_without_a_driver_the_reason_is_said(self):
        self.environment["TARN_DRIVER"] = str(self.folder / "none.so")
        out, said = self.run_command("info", status=1)
        self.assertNotIn("device", out)
        self.assertIn("none.so", said)

    def test_a_driver_that_fails_is_no_device_that_can_be_used(self):
        self.environment["TARN_SIM_FAULT"] = "cuDevicePrimaryCtxRetain:1:UNKNOWN:always"
        out, said = self.run_command("info", status=1)
        self.assertNotIn("device", out)
        self.assertIn("no device can be used", said)
        self.assertIn("CUDA_ERROR_UNKNOWN", said)


if __name__ == "__main__":
    unittest.main()
