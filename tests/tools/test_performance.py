# SPDX-License-Identifier: Apache-2.0
"""Which lines performance.py keeps of a file of results, and which it shows."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))

import performance  # noqa: E402
import results  # noqa: E402


def line(day, median, commit="abcdef0", device=performance.DEVICE, row="pair", variant="512 B", rival=None):
    return {"date": f"2026-11-{day:02}T00:00:00Z", "commit": commit, "device": device, "simulated": False,
            "row": row, "variant": variant, "rival": rival, "median": median}


class Performance(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "h200.jsonl"

    def thinned(self, *lines):
        """The medians that are left of these lines, in their order."""
        self.path.write_text(results.text_of([results.parse(json.dumps(entry)) for entry in lines]))
        with contextlib.redirect_stdout(io.StringIO()):
            was_thin = performance.is_thin(self.path)
            performance.thin(self.path)
            self.assertTrue(performance.is_thin(self.path))
        left = [entry["median"] for _, entry in results.read(self.path)]
        self.assertEqual(was_thin, len(left) == len(lines))
        return left

    def test_the_newest_line_of_a_figure_is_kept(self):
        self.assertEqual(self.thinned(line(2, 20), line(3, 30), line(1, 10)), [30])

    def test_the_last_of_lines_with_one_date_is_kept(self):
        self.assertEqual(self.thinned(line(2, 20), line(2, 21)), [21])

    def test_a_build_with_changes_is_kept_where_no_other_has_the_figure(self):
        dirty = line(3, 30, commit="abcdef0-dirty")
        self.assertEqual(self.thinned(line(2, 20), dirty), [20])
        self.assertEqual(self.thinned(dirty, line(2, 20)), [20])
        self.assertEqual(self.thinned(line(2, 20, variant="1 MiB"), dirty), [20, 30])

    def test_row_variant_rival_and_device_make_figures_of_their_own(self):
        others = [line(1, 1), line(1, 2, row="trace"), line(1, 3, variant="1 MiB"), line(1, 4, rival="PyTorch"),
                  line(1, 5, device="NVIDIA H100")]
        self.assertEqual(self.thinned(*others), [1, 2, 3, 4, 5])

    def test_figures_stay_in_the_order_of_their_first_appearance(self):
        other = line(1, 10, variant="1 MiB")
        self.assertEqual(self.thinned(line(1, 1), other, line(2, 2)), [2, 10])

    def test_lines_of_frameworks_and_counts_are_figures_too(self):
        date = {"date": "2026-11-01T00:00:00Z", "commit": "abcdef0"}
        audits = [{**date, "framework": "PyTorch", "workload": work, "allocator": "Tarn", "median": median}
                  for median, work in enumerate(("training", "decode", "training"))]
        counts = [{**date, "case": case, "median": median} for median, case in enumerate(("pair", "step", "pair"), 3)]
        self.assertEqual(self.thinned(*audits, *counts), [2, 1, 5, 4])

    def test_a_lean_line_is_the_same_when_read(self):
        full = {**line(1, 7), "unit": "", "target_is": None, "target": None, "p10": 7, "p90": 7, "samples": 1}
        for spread in ({}, {"p10": 6}, {"samples": 2}, {"unit": "ns"}, {"simulated": True}):
            entry = {**full, **spread}
            self.assertLess(len(results.lean(entry)), len(json.dumps(entry)))
            self.assertEqual(results.parse(results.lean(entry)), entry)

    def test_fields_of_a_run_are_written_once(self):
        other = {name: value for name, value in line(3, 5).items() if name != "device"}
        entries = [results.parse(json.dumps(entry)) for entry in (line(1, 1), line(1, 2), line(2, 3), other, line(3, 6))]
        self.path.write_text(results.text_of(entries))
        self.assertEqual([entry for _, entry in results.read(self.path)], entries)
        texts = self.path.read_text().splitlines()
        self.assertEqual([text.count("date") for text in texts], [1, 0, 1, 1, 1])
        self.assertEqual([text.count("device") for text in texts], [1, 0, 1, 0, 1])

    def test_a_row_is_written_once(self):
        count = {name: value for name, value in line(1, 4).items() if name != "row"}
        entries = [results.parse(json.dumps(entry))
                   for entry in (line(1, 1), line(1, 2), line(1, 3, row="trace"), count, line(1, 5))]
        self.path.write_text(results.text_of(entries))
        self.assertEqual([entry for _, entry in results.read(self.path)], entries)
        texts = self.path.read_text().splitlines()
        self.assertEqual([text.count("row") for text in texts], [1, 0, 1, 0, 1])

    def test_a_count_of_samples_is_written_once(self):
        entries = [results.parse(json.dumps({**line(1, 7), "p10": 6, "p90": 8, "samples": count}))
                   for count in (101, 101, 1, 101)]
        self.path.write_text(results.text_of([*entries, results.parse(json.dumps(line(1, 7)))]))
        self.assertEqual([entry["samples"] for _, entry in results.read(self.path)], [101, 101, 1, 101, 1])
        self.assertEqual([text.count("samples") for text in self.path.read_text().splitlines()], [1, 0, 1, 1, 0])

    def test_a_file_with_lines_that_could_be_leaner_is_not_thin(self):
        self.path.write_text(json.dumps(line(1, 1)) + "\n")
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertFalse(performance.is_thin(self.path))

    def test_programs_stand_beside_their_rivals_and_their_peak(self):
        kept = [{**line(1, median, row="recorded", rival=rival, variant=f"gpt2: {what}"), "unit": ""}
                for what, rival, median in (("GiB requested at the peak", "as recorded", 12), ("event", None, 50),
                                            ("reserved over requested", None, 1.02), ("event", "PyTorch", 300),
                                            ("reserved over requested", "PyTorch", 1.5), ("event", "other", 10))]
        (self.folder / "traces.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in kept))
        text, picture = performance.programs(performance.Figures(self.folder, False))
        self.assertIn("| gpt2 | 12 | 1.020 |  | 1.500 |  | 50 | 300 |  |  |", text)
        self.assertIn(">peak live</text>", picture)

    def test_a_thinned_file_shows_what_it_showed(self):
        lines = [line(1, 1), line(1, 2, rival="PyTorch"), line(2, 3), line(3, 4, commit="abcdef0-dirty")]
        self.path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
        before = list(performance.Figures(self.folder, False).lines.items())
        self.thinned(*lines)
        self.assertEqual(list(performance.Figures(self.folder, False).lines.items()), before)
        self.assertEqual([entry["median"] for _, entry in before], [3, 2])

    def grid_of(self, *lines):
        self.path.write_text("".join(json.dumps({"unit": "ns", **entry}) + "\n" for entry in lines))
        figures = performance.Figures(self.folder, False)
        columns = [performance.column(figures, "pair", rival or "Tarn", "{} B", rival) for rival in (None, "PyTorch")]
        return performance.grid("bytes", [512, 1024], columns).split("\n")

    def test_a_grid_has_rows_and_columns_with_figures_alone_and_their_runs(self):
        self.assertEqual(self.grid_of(line(1, 1)), ["| bytes (ns) | Tarn |", "| --- | --- |", "| 512 | 1 |", "",
                                                    "Run: 2026-11-01 `abcdef0`."])
        both = self.grid_of(line(1, 1), line(2, 2, variant="1024 B, up to 1 KiB", rival="PyTorch"))
        self.assertEqual(both[0], "| bytes (ns) | Tarn | PyTorch |")
        self.assertEqual(both[2:4], ["| 512 | 1 |  |", "| 1024 |  | 2 |"])
        self.assertEqual(both[-1], "Runs: 2026-11-01 `abcdef0`, 2026-11-02 `abcdef0`.")

    def test_a_unit_that_not_all_figures_of_a_grid_have_stands_in_each_cell(self):
        mixed = self.grid_of({**line(1, 1), "unit": "us"}, line(1, 2, rival="PyTorch"))
        self.assertEqual(mixed[0], "| bytes | Tarn | PyTorch |")
        self.assertEqual(mixed[2], "| 512 | 1 us | 2 ns |")

    def test_two_builds_beside_each_other_are_not_shown(self):
        self.path.write_text(json.dumps(line(1, 1)) + "\n")
        (self.folder / "beside.jsonl").write_text(json.dumps(line(2, 2)) + "\n")
        self.assertEqual(performance.Figures(self.folder, False).find("pair", "512 B")["median"], 1)


if __name__ == "__main__":
    unittest.main()
