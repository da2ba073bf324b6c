# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the sample and of a longer run are what PyTorch 2.11 writes: keys, types, sums, and opcodes that its
viewer reads.

TARN_SNAPSHOT_SAMPLE is the sample's program, TARN_SNAPSHOT_RUN the other one.
"""

import copy
import io
import os
import pathlib
import pickle
import pickletools
import subprocess
import tempfile
import unittest

import test_convert

FRAME = {"filename": str, "line": int, "name": str}
BLOCK = {"address": int, "size": int, "requested_size": int, "state": str, "frames": list}
SEGMENT = {"device": int, "address": int, "total_size": int, "allocated_size": int, "active_size": int,
           "requested_size": int, "stream": int, "segment_type": str, "segment_pool_id": tuple, "is_expandable": bool,
           "frames": list, "blocks": list}
EVENT = {"action": str, "addr": int, "size": int, "stream": int, "time_us": int, "pool_id": tuple,
         "compile_context": str, "user_metadata": str, "frames": list}
OOM = {"device_free" if key == "addr" else key: kind for key, kind in EVENT.items()}
# Entries whose user_metadata may be a text: the label of the allocation, or the annotation.
TOLD = {"alloc", "free_requested", "free_completed", "annotate"}
ACTIONS = TOLD | {"segment_map", "segment_unmap", "oom", "snapshot"}
ANNOTATION = {"name": str, "stage": str, "device": int, "time_us": int}
PAGE = 2 << 20
SNAPSHOT = {"segments": list, "device_traces": list, "allocator_settings": dict, "external_annotations": list}
SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": str, "max_split_size": int, "garbage_collection_threshold": float,
            "expandable_segments": bool, "pinned_num_register_threads": int, "release_lock_on_cudamalloc": bool,
            "pinned_use_cuda_host_register": bool, "graph_capture_record_stream_reuse": bool,
            "roundup_power2_divisions": dict}
STATES = ("active_allocated", "active_pending_free", "inactive")
# What the viewer's own reader of pickles knows; GLOBAL and its like are not among them.
OPCODES = {"PROTO", "FRAME", "MARK", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1",
           "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "LIST", "DICT",
           "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT",
           "MEMOIZE", "BINGET", "LONG_BINGET"}


class Wrong(Exception):
    pass


def expect(holds, *what):
    if not holds:
        raise Wrong(*what)


def expect_keys(given, types):
    expect(type(given) is dict and list(given) == list(types), "keys", given)
    for key, kind in types.items():
        expect(type(given[key]) is kind, key, given[key])


def check_frames(frames):
    for frame in frames:
        expect_keys(frame, FRAME)
        expect(frame["filename"] and frame["name"], "a frame's texts", frame)
        expect(frame["line"] >= 0, "line", frame)


def check_segment(segment):
    expect_keys(segment, SEGMENT)
    expect(segment["segment_type"] in ("small", "large"), segment["segment_type"])
    expect([type(part) for part in segment["segment_pool_id"]] == [int, int], segment["segment_pool_id"])
    expect(segment["frames"] == [], "frames")
    at = segment["address"]
    sizes = dict.fromkeys(STATES, 0)
    for block in segment["blocks"]:
        expect_keys(block, BLOCK)
        expect(block["address"] == at, "tiling", at, block)
        expect(block["state"] in STATES, block["state"])
        expect(0 < block["size"] and block["size"] % 512 == 0, "size", block)
        expect(block["requested_size"] <= block["size"], "requested_size", block)
        expect((block["state"] == "inactive") == (block["requested_size"] == 0), "requested_size", block)
        check_frames(block["frames"])
        expect(block["state"] != "inactive" or block["frames"] == [], "frames of a free block", block)
        sizes[block["state"]] += block["size"]
        at += block["size"]
    expect(at == segment["address"] + segment["total_size"], "total_size", segment)
    expect(segment["allocated_size"] == sizes["active_allocated"], "allocated_size")
    expect(segment["active_size"] == sizes["active_allocated"] + sizes["active_pending_free"], "active_size")
    expect(segment["requested_size"] == sum(block["requested_size"] for block in segment["blocks"]), "requested_size")


def check_trace(trace, segments):
    """The events are those of the format, in the order of time, and lead to the live blocks."""
    live = {}
    mapped = set()
    last = 0
    for event in trace:
        action = event["action"]
        expect(action in ACTIONS, "action", event)
        expect_keys(event, OOM if action == "oom" else EVENT)
        expect(event["time_us"] >= last, "order of time", event)
        check_frames(event["frames"])
        expect(action == "alloc" or event["frames"] == [], "frames", event)
        expect(action in TOLD or event["user_metadata"] == "", "user_metadata", event)
        last = event["time_us"]
        if action == "alloc":
            expect(event["addr"] not in live, "alloc", event)
            live[event["addr"]] = event["size"]
        elif action in ("free_requested", "free_completed"):
            expect(live.get(event["addr"]) in (event["size"], None), "free", event)
            if action == "free_completed":
                live.pop(event["addr"], None)
        elif action == "segment_map":
            mapped.update(range(event["addr"], event["addr"] + event["size"], PAGE))
        elif action == "segment_unmap":
            mapped.difference_update(range(event["addr"], event["addr"] + event["size"], PAGE))
    blocks = {block["address"]: block["requested_size"] for segment in segments for block in segment["blocks"]
              if block["state"] == "active_allocated"}
    expect(live == blocks, "live blocks", live, blocks)
    pages = {page for segment in segments
             for page in range(segment["address"], segment["address"] + segment["total_size"], PAGE)}
    expect(pages == mapped, "mapped memory")


def check_annotations(annotations, device_count):
    """Begins and ends of ranges, of devices that have a trace."""
    for annotation in annotations:
        expect_keys(annotation, ANNOTATION)
        expect(annotation["stage"] in ("START", "END"), "stage", annotation)
        expect(0 <= annotation["device"] < device_count, "device", annotation)
        expect(annotation["time_us"] > 0, "time_us", annotation)


def check(snapshot):
    expect_keys(snapshot, SNAPSHOT)
    expect_keys(snapshot["allocator_settings"], SETTINGS)
    divisions = snapshot["allocator_settings"]["roundup_power2_divisions"]
    expect(list(divisions) == [str(1 << i) for i in range(16)], "divisions", divisions)
    check_annotations(snapshot["external_annotations"], len(snapshot["device_traces"]))
    end = 0
    for segment in snapshot["segments"]:
        check_segment(segment)
        expect(segment["address"] >= end, "order", segment["address"])
        end = segment["address"] + segment["total_size"]
    for device, trace in enumerate(snapshot["device_traces"]):
        check_trace(trace, [segment for segment in snapshot["segments"] if segment["device"] == device])
    expect(len(snapshot["device_traces"]) > max(segment["device"] for segment in snapshot["segments"]), "traces")


def run(program, count=1):
    """The bytes of each of the files that the program writes."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / str(i) for i in range(count)]
        subprocess.run([program, *paths], check=True, stdout=subprocess.DEVNULL)
        return [path.read_bytes() for path in paths]


def check_opcodes(data):
    """The viewer reads each opcode."""
    found = [(opcode.name, argument) for opcode, argument, _ in pickletools.genops(data)]
    expect({name for name, _ in found} <= OPCODES, "opcodes")
    expect(found[0] == ("PROTO", 2), "protocol")
    expect(found[-1][0] == "STOP", "end")
    expect(all(abs(argument) < 1 << 63 for name, argument in found if name == "LONG1"), "integers")
    pickletools.dis(data, io.StringIO())  # which fails unless the stack is empty at the end


class Run(unittest.TestCase):
    """Private pools, a checkpoint restored, a use on another stream, memory that is lacking."""

    @classmethod
    def setUpClass(cls):
        cls.bytes, cls.trace = run(os.environ["TARN_SNAPSHOT_RUN"], 2)
        cls.snapshot = pickle.loads(cls.bytes)

    def test_it_has_all_keys_types_and_sums(self):
        check(self.snapshot)
        check_opcodes(self.bytes)

    def test_it_has_what_the_run_has_done(self):
        trace = self.snapshot["device_traces"][0]
        lacking = [event for event in trace if event["action"] == "oom"]
        self.assertEqual([event["size"] for event in lacking], [(64 << 20) + 1])
        pools = {segment["segment_pool_id"] for segment in self.snapshot["segments"]}
        self.assertEqual(len(pools - {(0, 0)}), 2)
        live = [block for segment in self.snapshot["segments"] for block in segment["blocks"]
                if block["state"] == "active_allocated"]
        self.assertEqual(len(live), 80, "of the checkpoint, and of the second pool")
        bare = [block["requested_size"] for block in live if not block["frames"]]
        self.assertEqual(bare, [700 * 16], "the block that the restore has revived")

    def test_it_has_the_programs_texts(self):
        trace = self.snapshot["device_traces"][0]
        labels = [event["user_metadata"] for event in trace if event["action"] == "alloc"]
        self.assertEqual(labels.count("first step"), 200)
        self.assertEqual(labels.count(""), len(labels) - 200)
        notes = [event["user_metadata"] for event in trace if event["action"] == "annotate"]
        self.assertEqual(notes, ["weights of layer 1"])
        ranges = [(one["name"], one["stage"]) for one in self.snapshot["external_annotations"]]
        self.assertEqual(ranges, [("steps", "START"), ("steps", "END")])

    def test_its_trace_has_the_same_events(self):
        header, records = test_convert.decode(self.trace)
        self.assertEqual(header["name"], "run")
        self.assertEqual(header["streams"], 2)
        events = self.snapshot["device_traces"][0]
        self.assertEqual(sum(record[0] == "allocate" for record in records), sum(
            event["action"] == "alloc" for event in events))
        self.assertEqual(sum(record[0] == "free" for record in records), sum(
            event["action"] == "free_requested" for event in events))
        self.assertEqual(sum(record[0] == "use" for record in records), 1)

    def test_the_benchmark_replays_its_trace(self):
        if "TARN_BENCH" not in os.environ:
            self.skipTest("no benchmark was built")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.trace"
            path.write_bytes(self.trace)
            done = subprocess.run([os.environ["TARN_BENCH"], "--quick", "--row", "recorded", "--trace", path],
                                  check=True, capture_output=True, text=True)
        self.assertIn("run: reserved over requested", done.stdout)

    def test_its_file_is_small(self):
        events = len(self.snapshot["device_traces"][0])
        self.assertGreater(events, 1500)
        self.assertLess(len(self.bytes), 75 * events)


class Snapshot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bytes, = run(os.environ["TARN_SNAPSHOT_SAMPLE"])
        cls.snapshot = pickle.loads(cls.bytes)

    def test_it_has_all_keys_types_and_sums(self):
        check(self.snapshot)

    def test_it_has_what_the_sample_has_done(self):
        states = {}
        for segment in self.snapshot["segments"]:
            for block in segment["blocks"]:
                pool = "default" if segment["segment_pool_id"] == (0, 0) else "private"
                states.setdefault((pool, block["state"]), []).append(block["requested_size"])
        self.assertEqual(sorted(states["default", "active_allocated"]), [1000, 3000, 5000, 4 << 20])
        self.assertEqual(states["private", "active_allocated"], [4 << 20])
        self.assertEqual(states["private", "active_pending_free"], [4 << 20])
        self.assertIn(("default", "inactive"), states)
        streams = {segment["stream"] for segment in self.snapshot["segments"]}
        self.assertEqual(len(streams), 1, "one stream, in its capture, too")
        self.assertNotIn(0, streams)

    def test_blocks_have_the_frames_of_their_allocations(self):
        sample = os.path.realpath(os.environ["TARN_SNAPSHOT_SAMPLE"])
        blocks = {block["address"]: block["frames"] for segment in self.snapshot["segments"]
                  for block in segment["blocks"] if block["state"] != "inactive"}
        allocs = {event["addr"]: event["frames"] for event in self.snapshot["device_traces"][0]
                  if event["action"] == "alloc"}
        for address, frames in blocks.items():
            self.assertGreater(len(frames), 0)
            self.assertEqual(frames[0]["filename"], sample)
            self.assertIn("11_snapshot", frames[0]["name"])
            self.assertEqual(frames, allocs[address])
        self.assertGreater(len({frames[0]["line"] for frames in blocks.values()}), 3, "each call has a place")

    def test_a_frame_is_written_once(self):
        frames = {id(frame): frame for segment in self.snapshot["segments"] for block in segment["blocks"]
                  for frame in block["frames"]}
        self.assertEqual(len(frames), len({tuple(frame.values()) for frame in frames.values()}))

    def test_the_viewer_reads_each_opcode(self):
        check_opcodes(self.bytes)

    def test_a_string_that_comes_often_is_written_once(self):
        for word in (b"requested_size", b"active_allocated", b"segment_pool_id"):
            self.assertEqual(self.bytes.count(word), 1)

    def add_texts(self):
        """The snapshot with a label, an annotation of a block and a range."""
        snapshot = copy.deepcopy(self.snapshot)
        trace = snapshot["device_traces"][0]
        block = next(event for event in trace if event["action"] == "alloc")
        block["user_metadata"] = "layer 1"
        trace.append({**trace[-1], "action": "annotate", "addr": block["addr"], "size": block["size"],
                      "user_metadata": "weights", "frames": []})
        for stage in ("START", "END"):
            snapshot["external_annotations"].append(
                {"name": "step", "stage": stage, "device": 0, "time_us": trace[-1]["time_us"]})
        return snapshot

    def test_labels_annotations_and_ranges_are_right(self):
        check(self.add_texts())

    def test_the_check_finds_wrong_texts(self):
        def mislay(snapshot):
            snapshot["external_annotations"][0]["device"] = 1

        def misname(snapshot):
            snapshot["external_annotations"][0]["stage"] = "MIDDLE"

        def lose_name(snapshot):
            del snapshot["external_annotations"][1]["name"]

        def forget_time(snapshot):
            snapshot["external_annotations"][1]["time_us"] = 0

        def tell(snapshot):
            next(event for event in snapshot["device_traces"][0]
                 if event["action"] == "segment_map")["user_metadata"] = "layer 1"

        def rename(snapshot):
            snapshot["device_traces"][0][-1]["action"] = "annotated"

        for change in (mislay, misname, lose_name, forget_time, tell, rename):
            changed = self.add_texts()
            change(changed)
            with self.assertRaises(Wrong, msg=change.__name__):
                check(changed)

    def test_the_check_finds_what_is_wrong(self):
        def lose_key(snapshot):
            del snapshot["segments"][0]["is_expandable"]

        def leave_gap(snapshot):
            snapshot["segments"][1]["blocks"].pop(1)

        def swap(snapshot):
            snapshot["segments"].reverse()

        def rename(snapshot):
            snapshot["segments"][0]["blocks"][0]["state"] = "active"

        def list_pool(snapshot):
            snapshot["segments"][0]["segment_pool_id"] = [0, 0]

        def grow(snapshot):
            snapshot["segments"][0]["active_size"] += 512

        def forget(snapshot):
            snapshot["device_traces"].clear()

        def lose_line(snapshot):
            next(block for block in snapshot["segments"][0]["blocks"] if block["frames"])["frames"][0].pop("line")

        def lose_event(snapshot):
            trace = snapshot["device_traces"][0]
            trace.remove(next(event for event in trace if event["action"] == "alloc"))

        def go_back(snapshot):
            snapshot["device_traces"][0].reverse()

        for change in (lose_key, leave_gap, swap, rename, list_pool, grow, forget, lose_line, lose_event, go_back):
            changed = copy.deepcopy(self.snapshot)
            change(changed)
            with self.assertRaises((Wrong, IndexError), msg=change.__name__):
                check(changed)


if __name__ == "__main__":
    unittest.main()
