# SPDX-License-Identifier: Apache-2.0
"""Histories as files of other tools: each pool's bytes are rebuilt from the file, and are compared
with what the program said at 1,000 moments.

TARN_COMMAND is the command, TARN_MOMENTS the program tests/command/moments.c, and TARN_RECORDED
tests/command/recorded.c.
"""

import ast
import gzip
import importlib.util
import json
import os
import pathlib
import pickle
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import unittest

import wire
from test_command import COMMAND, SMALL, Case

MOMENTS = os.environ["TARN_MOMENTS"]
TRACES = pathlib.Path(__file__).parents[2] / "tools" / "traces"
FORMATS = ("chrome", "perfetto", "pprof", "pytorch", "sqlite")


class Converted(Case):
    def start_moments(self, seed=1, conf="history_bytes:4M"):
        """What the program said at each moment: the pool, its events, its bytes; and the program."""
        program = subprocess.Popen([MOMENTS, str(seed)], stdout=subprocess.PIPE, text=True,
                                   env={**self.environment, "TARN_CONF": conf})
        self.programs.append(program)
        moments = []
        while (line := program.stdout.readline()) != "done\n":
            self.assertTrue(line, "the program has ended")
            if line.startswith("moment "):
                moments.append(tuple(map(int, line.split()[1:])))
        self.assertEqual(len(moments), 1000)
        return moments, program

    def convert(self, program, form, **more):
        out = self.folder / f"converted.{form}"
        self.run_command("convert", program.pid, "--to", form, "-o", out, **more)
        return out.read_bytes()

    def compare(self, moments, samples):
        """samples: for each pool by its number the bytes behind each event, and those requested."""
        pools = [samples[number] for number in sorted(samples) if number > 1]  # 1: the default pool
        self.assertEqual(len(pools), 3)
        for pool, events, live, requested in moments:
            self.assertEqual(pools[pool][events - 1], (live, requested), (pool, events))

    def check(self, form, read):
        """A program that runs, and the same once it was killed."""
        moments, program = self.start_moments()
        self.compare(moments, read(self.convert(program, form)))
        self.kill(program)
        self.compare(moments, read(self.convert(program, form)))


def chrome_samples(converted):
    samples = {}
    for event in json.loads(converted)["traceEvents"]:
        if event["ph"] == "C":
            requested, rounding = event["args"]["requested"], event["args"]["rounding"]
            samples.setdefault(int(event["name"].split()[1]), []).append(
                (requested + rounding, requested))
    return samples


class Chrome(Converted):
    def test_the_bytes_of_pools_are_those_of_the_program(self):
        self.check("chrome", chrome_samples)

    def test_ranges_are_slices(self):
        program, _ = self.start_killed("more")
        events = json.loads(self.convert(program, "chrome"))["traceEvents"]
        self.assertEqual([(event["ph"], event["name"]) for event in events if event["ph"] in "BE"],
                         [("B", "more leaks"), ("E", "more leaks")])

    def test_captures_and_graphs_are_slices_in_the_order_of_time(self):
        program, _ = self.start_killed()
        events = json.loads(self.convert(program, "chrome"))["traceEvents"]
        times = [event["ts"] for event in events]
        self.assertEqual(times, sorted(times))
        phases = [event["ph"] for event in events if event.get("cat") == "capture"]
        self.assertEqual(phases, ["b", "e"])
        names = [event["name"] for event in events if event["ph"] == "i"]
        self.assertEqual(names.count("graph replayed"), 2)
        self.assertEqual({event["pid"] for event in events}, {program.pid})


def perfetto_samples(converted):
    """By the fields of Perfetto's messages alone."""
    names, values = {}, {}
    for packet in wire.read(converted)[1]:
        fields = wire.read(packet)
        for descriptor in fields.get(60, []):
            track = wire.read(descriptor)
            names[track[1][0]] = track.get(2, [b""])[0].decode()
        for event in map(wire.read, fields.get(11, [])):
            if event[9] == [4]:
                values.setdefault(names[event[11][0]], []).append(event[30][0])
    return {int(name.split()[1]): list(zip(all, values[f"requested of {name}"], strict=True))
            for name, all in values.items() if name.startswith("pool ")}


def perfetto_samples_by_its_own_reader(converted):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(converted)
    names, values = {}, {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            names[packet.track_descriptor.uuid] = packet.track_descriptor.name
        event = packet.track_event
        if event.type == event.TYPE_COUNTER:
            values.setdefault(names[event.track_uuid], []).append(event.counter_value)
    return {int(name.split()[1]): list(zip(all, values[f"requested of {name}"], strict=True))
            for name, all in values.items() if name.startswith("pool ")}


class Perfetto(Converted):
    def test_the_bytes_of_pools_are_those_of_the_program(self):
        self.check("perfetto", perfetto_samples)

    @unittest.skipIf(importlib.util.find_spec("perfetto") is None, "no perfetto of PyPI")
    def test_perfettos_own_reader_finds_the_same(self):
        self.check("perfetto", perfetto_samples_by_its_own_reader)

    def test_captures_and_replays_are_told(self):
        program, _ = self.start_killed("more")
        names = []
        for packet in wire.read(self.convert(program, "perfetto"))[1]:
            for event in map(wire.read, wire.read(packet).get(11, [])):
                names += [(event[9][0], name.decode()) for name in event.get(23, [])]
        self.assertEqual(names.count((3, "graph replayed")), 2)
        self.assertEqual(names.count((1, "capture")), 1)
        self.assertEqual(names[-2:], [(1, "more leaks"), (2, "more leaks")])


def pprof_stacks(converted):
    """The names of each stack, innermost first, and its values."""
    profile = wire.read(gzip.decompress(converted) if converted[:2] == b"\x1f\x8b" else converted)
    texts = [text.decode() for text in profile[6]]
    assert texts[0] == ""
    functions = {read[1][0]: texts[read[2][0]] for read in map(wire.read, profile.get(5, []))}
    lines = {}
    for location in map(wire.read, profile.get(4, [])):
        lines[location[1][0]] = [functions[line[1][0]] for line in map(wire.read, location.get(4, []))]
    for sample in map(wire.read, profile[2]):
        names = [name for number in wire.packed(sample[1][0]) for name in lines[number]]
        yield names, wire.packed(sample[2][0])


class Pprof(Converted):
    def test_stacks_have_what_was_allocated_and_what_is_live(self):
        program, _ = self.start_killed("more")
        values = {}
        for names, counts in pprof_stacks(self.convert(program, "pprof")):
            for name in names:
                values.setdefault(name, []).append(counts)
        self.assertEqual(values["leak_weights"], [[3, 3 * 1000448, 3, 3 * 1000448]])
        self.assertEqual(values["leak_more"], [[5, 5 * 20480, 5, 5 * 20480]])
        self.assertEqual(values["make_scratch"], [[1, 70144, 0, 0]])
        self.assertEqual(len(values["allocate"]), 3)

    def test_live_bytes_are_those_of_the_pools_at_the_end(self):
        _, program = self.start_moments(seed=2)
        self.kill(program)
        live = sum(counts[3] for _, counts in pprof_stacks(self.convert(program, "pprof")))
        pools = chrome_samples(self.convert(program, "chrome"))
        self.assertEqual(live, sum(samples[-1][0] for samples in pools.values()))
        self.assertGreater(live, 0)

    def test_some_allocations_stand_for_all(self):
        program, _ = self.start_killed(
            conf="history_bytes:1M,history_stacks:frames,history_sample_bytes:300000")
        for names, counts in pprof_stacks(self.convert(program, "pprof")):
            if "leak_weights" in names:
                self.assertGreater(counts[3], counts[2] * 1000448)

    @unittest.skipIf(shutil.which("go") is None, "no go, whose pprof reads the file")
    def test_gos_own_reader_finds_the_same(self):
        program, _ = self.start_killed()
        self.convert(program, "pprof")
        done = subprocess.run(["go", "tool", "pprof", "-top", "-cum", "-unit=B", self.folder / "converted.pprof"],
                              capture_output=True, text=True, timeout=120, check=False,
                              env={**self.environment, "HOME": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"3001344B +[0-9.]+% +leak_weights")
        self.assertIn("Type: inuse_space", done.stdout)


class Sqlite(Converted):
    def open(self, program):
        out = self.folder / "converted.sqlite"
        done = subprocess.run([COMMAND, "convert", str(program.pid), "--to", "sqlite", "-o", out], text=True,
                              stderr=subprocess.PIPE, env=self.environment, check=False)
        if "built without SQLite" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        base = sqlite3.connect(self.folder / "converted.sqlite")
        self.addCleanup(base.close)
        self.assertEqual(base.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        return base

    def test_the_bytes_of_pools_are_those_of_the_program(self):
        moments, program = self.start_moments()
        samples = {}
        for pool, *sums in self.open(program).execute(
                "SELECT pool, pool_bytes, pool_requested FROM changes ORDER BY id"):
            samples.setdefault(pool, []).append(tuple(sums))
        self.compare(moments, samples)

    def test_questions_are_answered(self):
        program, _ = self.start_killed("more")
        base = self.open(program)
        worst = base.execute("SELECT stack, count(*), sum(requested), tag FROM live GROUP BY stack "
                             "ORDER BY 3 DESC").fetchall()
        self.assertEqual([row[1:] for row in worst], [(3, 3000000, 0), (5, 100000, 77), (1, 5000, 0)])
        self.assertEqual(base.execute("SELECT name, ends FROM ranges ORDER BY id").fetchall(),
                         [("more leaks", 0), ("more leaks", 1)])
        self.assertEqual(base.execute("SELECT function FROM frames WHERE stack = ? AND depth = 0",
                                      (worst[1][0],)).fetchone(), ("label: a label",))
        names = [name for (name,) in base.execute(
            "SELECT function FROM frames WHERE stack = ? ORDER BY depth", (worst[0][0],))]
        self.assertEqual(names[:3], ["allocate", "leak_weights", "main"])
        self.assertEqual(base.execute("SELECT count(*) FROM notes WHERE name = 'graph replayed'")
                         .fetchone(), (2,))
        self.assertEqual(base.execute("SELECT value FROM about WHERE key = 'process'").fetchone(),
                         (program.pid,))

    def test_what_was_live_at_a_moment_is_told(self):
        _, program = self.start_moments()
        self.kill(program)
        base = self.open(program)
        told = base.execute("SELECT block, max(id) FROM changes WHERE time_ns <= ? GROUP BY block "
                            "HAVING kind <> 'freed'", (1 << 62,))
        self.assertEqual({block for block, _ in told},
                         {block for (block,) in base.execute("SELECT block FROM live")})

    def test_a_file_of_before_stays_where_the_new_one_cannot_be_made(self):
        program, _ = self.start_killed(conf=SMALL)
        self.assertIn("needs -o", self.refused("convert", program.pid, "--to", "sqlite"))
        there = self.folder / "there"
        there.mkdir()
        said = self.refused("convert", program.pid, "--to", "sqlite", "-o", there)
        self.assertIn("cannot be written", said)
        self.assertEqual(list(self.folder.glob("there.*")), [])


def pytorch_samples(converted):
    """Entries have the bytes that were requested, and no others."""
    live, samples = {}, {}
    for entry in pickle.loads(converted)["device_traces"][0]:
        pool = entry["pool_id"][1]
        if entry["action"] == "alloc":
            live[pool] = live.get(pool, 0) + entry["size"]
        elif entry["action"] == "free_completed":
            live[pool] -= entry["size"]
        else:
            continue
        samples.setdefault(pool, []).append(live[pool])
    return samples


class Pytorch(Converted):
    def test_the_bytes_of_pools_are_those_of_the_program(self):
        moments, program = self.start_moments()
        samples = pytorch_samples(self.convert(program, "pytorch"))
        pools = [samples[number] for number in sorted(samples)]
        for pool, events, _, requested in moments:
            self.assertEqual(pools[pool][events - 1], requested)

    def test_segments_have_the_live_blocks_and_no_gaps(self):
        _, program = self.start_moments()
        read = pickle.loads(self.convert(program, "pytorch"))
        live = 0
        for segment in read["segments"]:
            at = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], at)
                at += block["size"]
                live += block["requested_size"]
            self.assertEqual(at, segment["address"] + segment["total_size"])
        samples = pytorch_samples(self.convert(program, "pytorch"))
        self.assertEqual(live, sum(all[-1] for all in samples.values()))

    def test_a_snapshot_becomes_a_trace_to_replay(self):
        _, program = self.start_moments()
        self.kill(program)
        samples = pytorch_samples(self.convert(program, "pytorch"))
        trace = self.folder / "made.trace"
        done = subprocess.run([sys.executable, "-B", TRACES / "convert.py", "--name", "moments",
                               self.folder / "converted.pytorch", trace], capture_output=True, text=True, check=True)
        told = ast.literal_eval(done.stdout)
        self.assertEqual(told["allocations"] + told["frees"], sum(map(len, samples.values())))
        self.assertEqual(trace.read_bytes()[:5], b"\x89TARN")

    def test_entries_have_their_frames_and_labels(self):
        program, _ = self.start_killed("more")
        read = pickle.loads(self.convert(program, "pytorch"))
        labelled = [entry for entry in read["device_traces"][0]
                    if entry["action"] == "alloc" and entry["user_metadata"] == "a label"]
        self.assertEqual(len(labelled), 5)
        self.assertIn("leak_more", [frame["name"] for frame in labelled[0]["frames"]])
        self.assertEqual([one["stage"] for one in read["external_annotations"]], ["START", "END"])
        actions = {entry["action"] for entry in read["device_traces"][0]}
        self.assertIn("segment_map", actions)


class Refusals(Case):
    def test_formats_and_files_that_are_none_are_refused(self):
        program, _ = self.start_killed(conf=SMALL)
        self.assertIn("--to", self.refused("convert", program.pid))
        self.assertIn("--to", self.refused("convert", program.pid, "--to", "nothing"))
        other = self.folder / "other"
        other.write_bytes(b"nothing")
        self.assertIn("no history", self.refused("convert", other, "--to", "chrome"))

    def test_a_full_disk_leaves_the_file_of_before(self):
        program, _ = self.start_killed()
        out = self.folder / "out"

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        for form in FORMATS:
            out.write_bytes(b"before")
            done = subprocess.run([COMMAND, "convert", str(program.pid), "--to", form, "-o", out],
                                  stderr=subprocess.PIPE, text=True, env=self.environment,
                                  preexec_fn=limit, check=False)
            self.assertEqual(done.returncode, 2, form)
            self.assertRegex(done.stderr, r"\Atarn: [^\n]* cannot be [^\n]*\n\Z")
            self.assertEqual(out.read_bytes(), b"before", form)
            self.assertEqual(list(self.folder.glob("out.*")), [], form)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([COMMAND, "convert", str(program.pid), "--to", "chrome"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, env=self.environment, check=False)
        self.assertEqual(done.returncode, 2)

    def test_a_file_cut_short_anywhere_is_converted_or_refused(self):
        program, _ = self.start_killed(conf=SMALL)
        whole = self.file_of(program).read_bytes()
        cut = self.folder / "cut"
        for length in range(0, len(whole), max(4096, len(whole) // 4096 // 12 * 4096)):
            cut.write_bytes(whole[:length])
            for form in FORMATS:
                done = subprocess.run([COMMAND, "convert", cut, "--to", form, "-o", self.folder / "out"],
                                      capture_output=True, env=self.environment, check=False)
                self.assertIn(done.returncode, (0, 1, 2), done)


if __name__ == "__main__":
    unittest.main()
