# SPDX-License-Identifier: Apache-2.0
"""Lines of bench/results. A line that is kept is lean: a field that says nothing is left out, and so are the fields of
the run, the row and the count of samples where they are those of the line before. All are there again when the file
is read."""
import json

# What a line has whose field was left out. A single sample is its own spread.
ABSENT = {"simulated": False, "rival": None, "target_is": None, "target": None, "unit": ""}
SPREAD = ("p10", "p90")
RUN = ("date", "commit", "device", "driver_version")


def run_of(line):
    return {name: line[name] for name in RUN if name in line}


def parse(text, before=None):
    """The result that a line of JSON is, with all fields. before: the result of the line before; None: none."""
    line = json.loads(text)
    if before is not None and "date" not in line:
        again = ("row", "samples") if "p10" in line else ("row",)
        line = {**run_of(before), **{name: before[name] for name in again if name in before}, **line}
    if "median" in line:
        line = {**ABSENT, **{name: line["median"] for name in SPREAD}, "samples": 1, **line}
    return line


def read(path):
    """[(text, result)] of a file of results."""
    lines = []
    for text in filter(None, path.read_text(encoding="utf-8").splitlines()):
        lines.append((text, parse(text, lines[-1][1] if lines else None)))
    return lines


def lean(line, before=None):
    """The text of a result, without what parse puts back."""
    kept = {name: value for name, value in line.items()
            if not (name in ABSENT and value == ABSENT[name])}
    if line.get("samples") == 1 and all(line.get(name) == line["median"] for name in SPREAD):
        kept = {name: value for name, value in kept.items() if name not in (*SPREAD, "samples")}
    if before is not None and run_of(line) == run_of(before) and ("row" in line) == ("row" in before):
        same = RUN if line.get("row") != before.get("row") else (*RUN, "row")
        if "p10" in kept and line.get("samples") == before.get("samples"):
            same = (*same, "samples")
        kept = {name: value for name, value in kept.items() if name not in same}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def text_of(lines):
    """The text of a file of these results."""
    return "".join(lean(line, before) + "\n" for line, before in zip(lines, [None, *lines]))
