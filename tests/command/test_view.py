# SPDX-License-Identifier: Apache-2.0
"""The picture of a history: the page alone, and in a headless Chromium where one is found.

TARN_COMMAND is the command, TARN_MOMENTS the program tests/command/moments.c, and TARN_RECORDED
tests/command/recorded.c.
"""

import base64
import itertools
import json
import re
import struct
import unittest

import browser
from test_command import SMALL
from test_convert import Converted

BOX = "(() => { const box = document.getElementById('%s').getBoundingClientRect(); " \
    "return [box.left, box.top, box.width, box.height]; })()"


class Pages(Converted):
    def make(self, program, *options):
        page = self.folder / "page.html"
        self.run_command("view", program.pid, "-o", page, *options)
        return page

    def data(self, page):
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>',
                                    page.read_text(), re.DOTALL).group(1))

    def test_a_page_is_whole_and_names_nothing_outside(self):
        program, _ = self.start_killed("more")
        page = self.make(program)
        text = page.read_text()
        self.assertTrue(text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n"))
        self.assertIsNone(re.search(r"https?:|//[a-z]+\.|url\(|@import|\bsrc=|<link", text))
        data = self.data(page)
        self.assertEqual(data["about"]["process"], program.pid)
        self.assertTrue(any("leak_more" in frame for one in data["stacks"] for frame in one["frames"]))
        self.assertEqual(data["labels"], ["no label", "a label"])
        self.assertEqual(len(data["captures"]), 1)

    def columns(self, page):
        data = self.data(page)
        units, pools = ([number for (number,) in struct.iter_unpack(form, base64.b64decode(data["columns"][name]))]
                        for name, form in (("units", "<i"), ("pool", "<I")))
        return data["about"], units, pools

    def test_few_changes_have_the_same_peaks_and_the_same_end(self):
        _, program = self.start_moments()
        self.kill(program)
        about, units, pools = self.columns(self.make(program))
        self.assertEqual((about["left_out"], about["merged"]), (0, 0))
        peak = max(itertools.accumulate(units))
        end = [sum(unit for unit, of in zip(units, pools, strict=True) if of == pool) for pool in range(3)]
        for most in (10000, 3000, 500):
            about, units, pools = self.columns(self.make(program, "--events", most))
            self.assertGreater(about["left_out"] + about["merged"], 0)
            self.assertLess(len(units), 2 * most)
            if about["merged"] == 0:
                self.assertEqual(max(itertools.accumulate(units)), peak)
            self.assertLessEqual(max(itertools.accumulate(units)), peak)
            self.assertEqual(end, [sum(unit for unit, of in zip(units, pools, strict=True) if of == pool)
                                   for pool in range(3)])

    def test_of_many_notes_the_newest_are_there_and_replays_are_counted(self):
        program, _ = self.start_killed("more")
        whole, few = (self.data(self.make(program, *options)) for options in ((), ("--events", 1)))
        self.assertEqual(whole["about"]["notes_left_out"], 0)
        self.assertEqual(few["about"]["notes_left_out"], len(whole["notes"]) - len(few["notes"]))
        replays, others, drawn = zip(*map(self.sort_notes, (whole, few)), strict=True)
        self.assertGreater(len(replays[0]), 1)
        self.assertEqual(replays[1], [replays[0][-1] | {"replays": len(replays[0])}])
        self.assertGreater(len(others[0]), 1)
        self.assertEqual(others[1], others[0][-1:])
        self.assertGreater(len(drawn[0]), 1)
        self.assertEqual(drawn[0], drawn[1])

    def sort_notes(self, data):
        drawn = "segment reserved", "segment given back", "memory mapped", "memory moved", "memory unmapped", \
            "graph made", "graph destroyed"
        return ([note for note in data["notes"] if note["kind"] == "graph replayed"],
                [note for note in data["notes"] if note["kind"] not in (*drawn, "graph replayed")],
                [note for note in data["notes"] if note["kind"] in drawn])

    def test_the_same_file_makes_the_same_page(self):
        program, _ = self.start_killed(conf=SMALL)
        self.assertEqual(self.make(program).read_bytes(), self.make(program).read_bytes())

    def test_a_file_that_is_no_history_is_refused(self):
        other = self.folder / "other"
        other.write_bytes(b"nothing")
        self.assertIn("no history", self.refused("view", other, "-o", self.folder / "page.html"))
        self.assertFalse((self.folder / "page.html").exists())


@unittest.skipIf(browser.PROGRAM is None, "no Chromium")
class Pictures(Pages):
    def open(self, program, **more):
        page = browser.Browser(**more)
        self.addCleanup(page.close)
        page.open(self.make(program))
        return page

    def expect_quiet(self, page):
        self.assertEqual(page.errors, [])
        self.assertEqual([url for url in page.requests if not url.startswith("file:")], [])

    def test_the_bytes_of_pools_are_those_of_the_program(self):
        moments, program = self.start_moments()
        self.kill(program)
        page = self.open(program)
        samples = page.ask("""(() => {
            tarn.setBy("pools");
            const samples = {}, all = tarn.grouping(), count = all.of.length;
            let before = tarn.sumsAt(0);
            for (let i = 1; i <= count; i++) {
                const now = tarn.sumsAt(i), group = all.of[i - 1];
                (samples[all.groups[group].name] ||= []).push(now[group] * 512);
            }
            return samples; })()""")
        pools = [samples[name] for name in sorted(samples)]
        for pool, events, live, _ in moments:
            self.assertEqual(pools[pool][events - 1], live)
        self.expect_quiet(page)

    def test_a_picture_is_drawn_zoomed_and_hovered(self):
        program, _ = self.start_killed("more")
        page = self.open(program)
        colours = page.ask("""(() => {
            const canvas = document.getElementById("time"), context = canvas.getContext("2d");
            const bytes = context.getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
            for (let i = 0; i < bytes.length; i += 4) seen.add(bytes.slice(i, i + 3).join());
            return seen.size; })()""")
        self.assertGreater(colours, 4)
        left, top, width, height = page.ask(BOX % "time")
        before = page.ask("tarn.state.to - tarn.state.from")
        page.mouse("mouseWheel", left + width / 2, top + height / 2, deltaX=0, deltaY=-500)
        self.assertLess(page.ask("tarn.state.to - tarn.state.from"), before / 2)
        page.key("Home")
        self.assertEqual(page.ask("tarn.state.to - tarn.state.from"), before)
        page.mouse("mouseMoved", left + width - 20, top + height / 2)
        self.assertIn("leak_weights", page.ask("document.getElementById('hint').textContent"))
        page.click(left + width - 20, top + height / 2)
        self.assertIn("live blocks", page.ask("document.getElementById('moment').textContent"))
        page.key("d")
        self.assertEqual(page.ask("document.documentElement.className"), "dark")
        page.key("p")
        self.assertEqual(page.ask("tarn.state.by"), "pools")
        self.expect_quiet(page)

    def test_a_block_is_found_by_its_number_and_its_address(self):
        program, scratch = self.start_killed("more")
        page = self.open(program)
        page.ask(f"tarn.find('{scratch}')")
        chosen = page.ask("document.getElementById('chosen').textContent")
        self.assertIn("make_scratch", chosen)
        self.assertIn("in a capture", chosen)
        number = int(re.search(r"block (\d+)", chosen).group(1))
        page.ask("tarn.find('0x10')")
        self.assertEqual(page.ask("document.getElementById('found').textContent"), "not found")
        page.ask(f"tarn.find('{number}')")
        self.assertEqual(page.ask("tarn.state.sought"), number)
        self.assertIn("make_scratch", page.ask("document.getElementById('chosen').textContent"))
        # The live block under the mouse tells its stack.
        page.ask("tarn.setCursor(1e18)")
        left, top, _, _ = page.ask(BOX % "map")
        box = page.ask("tarn.boxes()[0]")
        page.click(left + (box["left"] + box["right"]) / 2, top + (box["top"] + box["bottom"]) / 2)
        self.assertIn("recorded.c:", page.ask("document.getElementById('chosen').textContent"))
        self.expect_quiet(page)


if __name__ == "__main__":
    unittest.main()
