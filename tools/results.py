# SPDX-License-Identifier: Apache-2.0
"""Lines of bench/results. A line that is kept is lean: a field that says nothing is left out, and is there again
when the line is read."""
import json

# What a line has whose field was left out. A single sample is its own spread.
ABSENT = {"simulated": False, "rival": None, "target_is": None, "target": None, "unit": ""}
SPREAD = ("p10", "p90")


def parse(text):
    """The result that a line of JSON is, with all fields."""
    line = json.loads(text)
    if "median" in line:
        line = {**ABSENT, **{name: line["median"] for name in SPREAD}, "samples": 1, **line}
    return line


def read(path):
    """[(text, result)] of a file of results."""
    return [(text, parse(text)) for text in path.read_text(encoding="utf-8").splitlines() if text]


def lean(text):
    """The same line without what parse puts back."""
    line = json.loads(text)
    kept = {name: value for name, value in line.items()
            if not (name in ABSENT and value == ABSENT[name])}
    if line.get("samples") == 1 and all(line.get(name) == line["median"] for name in SPREAD):
        kept = {name: value for name, value in kept.items() if name not in (*SPREAD, "samples")}
    return json.dumps(kept, ensure_ascii=False)
