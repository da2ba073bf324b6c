#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads snapshots of Tarn with PyTorch's own tools, and prints what they say: whether each of them reads the file.

    pip install --no-deps torch==2.11.0     # in an environment of its own; its reader needs nothing else
    TARN_DRIVER=sim build/dev/bin/11_snapshot sample.pickle
    TARN_DRIVER=sim build/dev/bin/snapshot_run run.pickle run.trace
    tools/read_by_torch.py sample.pickle run.pickle > tests/tools/recorded/read_by_torch.txt

To be run for each change of the format. The reader is torch/cuda/_memory_viz.py, loaded by its path, so that neither
CUDA nor the rest of PyTorch is loaded.
"""

import importlib.metadata
import importlib.util
import pathlib
import pickle
import sys

LINES = 12  # of each report


def load_reader():
    """PyTorch's module, and the version of the package."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("no torch: pip install --no-deps torch")
    path = pathlib.Path(spec.origin).parent / "cuda" / "_memory_viz.py"
    spec = importlib.util.spec_from_file_location("memory_viz", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, importlib.metadata.version("torch")


def show(title, text):
    """The first lines of a report, cut to a readable length, and how many there are."""
    lines = text.splitlines()
    print(f"-- {title}: {len(lines)} lines, {len(text)} characters")
    for line in lines[:LINES]:
        print("   " + line[:100])


def whole(text):
    """In place of a flame graph's program, which would be loaded from the network: its input."""
    return text


def read(reader, path):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    trace = snapshot["device_traces"][0]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    print(f"== {pathlib.Path(path).name}: {pathlib.Path(path).stat().st_size} bytes, "
          f"{len(snapshot['segments'])} segments, {len(blocks)} blocks, {len(trace)} events")
    for segment in snapshot["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at, "the blocks of a segment tile it"
            at += block["size"]
        assert at == segment["address"] + segment["total_size"], "the blocks of a segment tile it"
    show("stats", reader.segsum(snapshot))
    show("trace", reader.trace(snapshot))
    show("segments, as a flame graph's input", reader.segments(snapshot, whole))
    show("memory, as a flame graph's input", reader.memory(snapshot, whole))
    show("compare with itself", reader.compare(snapshot["segments"], snapshot["segments"], whole))
    for title, page in (("trace page", reader.trace_plot(snapshot)), ("segment page", reader.segment_plot(snapshot))):
        assert "<html" in page.lower() or "<script" in page.lower(), "a page"
        print(f"-- {title}: {len(page)} characters")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    reader, version = load_reader()
    print(f"torch {version}")
    for path in sys.argv[1:]:
        read(reader, path)


if __name__ == "__main__":
    main()
