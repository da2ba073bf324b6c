# SPDX-License-Identifier: Apache-2.0
"""The metrics of the sample, as Prometheus' client library and a JSON parser read them.

TARN_METRICS_SAMPLE is the sample's program.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

try:
    from prometheus_client import parser
except ImportError:
    parser = None

MIB = 1 << 20
POOL = 'sample "12"'
DOCUMENTED = pathlib.Path(__file__).parents[2] / "docs/metrics.md"


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in ("text", "json")]
            subprocess.run([os.environ["TARN_METRICS_SAMPLE"], *paths], check=True, stdout=subprocess.DEVNULL)
            cls.text = paths[0].read_text("utf-8")
            cls.object = json.loads(paths[1].read_bytes())

    def families(self):
        if parser is None:
            self.skipTest("prometheus_client is not installed")
        return list(parser.text_string_to_metric_families(self.text))

    def samples(self):
        return {(sample.name, sample.labels.get("pool")): sample for family in self.families()
                for sample in family.samples}

    def pool(self):
        pool, = [pool for pool in self.object["pools"] if pool["pool"] == POOL]
        return pool

    def test_each_family_has_its_type_and_help_and_comes_once(self):
        families = self.families()
        names = [family.name for family in families]
        self.assertEqual(len(names), len(set(names)))
        for family in families:
            self.assertIn(family.type, ("gauge", "counter"))
            self.assertTrue(family.documentation)
            self.assertTrue(family.samples)
            for sample in family.samples:
                self.assertEqual(family.type == "counter", sample.name.endswith("_total"))
                self.assertEqual(set(sample.labels), {"device"} | (
                    {"pool", "number"} if sample.name.startswith("tarn_pool_") else set()))

    def test_peaks_are_those_since_the_last_scrape(self):
        samples = self.samples()
        self.assertEqual(samples["tarn_pool_live_bytes", POOL].value, 16 * MIB)
        self.assertEqual(samples["tarn_pool_live_peak_bytes", POOL].value, 48 * MIB)
        self.assertEqual(self.pool()["live_peak_bytes"], 48 * MIB)

    def test_memory_adds_up(self):
        value = {name: sample.value for (name, _), sample in self.samples().items()}
        self.assertEqual(value["tarn_device_memory_bytes"], sum(value[f"tarn_device_{part}_bytes"] for part in (
            "free", "other", "mapped", "cached")))
        self.assertEqual(self.object["memory_bytes"], sum(self.object[f"{part}_bytes"] for part in (
            "free", "other", "mapped", "cached")))

    def test_both_forms_have_the_same_numbers(self):
        samples = self.samples()
        pools = {pool["pool"]: pool for pool in self.object["pools"]}
        self.assertEqual(set(pools), {POOL, "default"})
        self.assertEqual(samples["tarn_device_pools", None].value, 2)
        moving = {"live_peak_bytes", "mapped_peak_bytes", "host_bytes"}
        for (name, pool), sample in samples.items():
            key = re.sub("^tarn_(device|pool)_", "", name)
            if key not in moving | {"pools"}:
                self.assertEqual((pools[pool] if pool else self.object)[key], sample.value, name)
            if pool:
                self.assertEqual(str(pools[pool]["number"]), sample.labels["number"])
        self.assertEqual(len(pools["default"]) - 2, sum(pool == "default" for _, pool in samples))

    def test_each_name_is_documented(self):
        documented = set(re.findall(r"`(tarn_(?:device|pool)_\w+)`", DOCUMENTED.read_text("utf-8")))
        written = set(re.findall(r"^# TYPE (\S+) ", self.text, re.MULTILINE))
        self.assertEqual(written, documented - {"tarn_device_write_metrics"})


if __name__ == "__main__":
    unittest.main()
