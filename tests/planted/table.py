#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py [--check]

Makes docs/planted.md from the rows of tests/planted/cells.h: which class of mistake is planted in which type of node,
by which tests. With --check it writes nothing, and fails when the file is another. It fails, too, when a class and a
type have neither a test nor a reason, or both."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/planted.md"

ON_REQUEST = ("TARN_POINTER_OVERWRITES",)

HEAD = """# Planted mistakes

Which mistakes of a captured graph the tests plant, and in nodes of which types. Each test puts one address that is
wrong, or becomes so after the capture, between correct ones, audits the graph and judges the whole of what is said of
it: class, node, kernel, parameter, offset, address, bytes, block and pool. Each is made twice: in a graph that
`tarn_capture_begin` captured, and in one that the program captured without Tarn. `make test LABEL=planted` runs all of
them; `tests/planted/cells.h` has the rows that this page is made of by `tests/planted/table.py`. *Overwrites* is a mistake on
request alone: there the options of the audit refuse it.

In the column of child graphs the mistake is in a node of the child graph, in that of conditional nodes in a node of a
body that is handed to the audit. Nodes of events and empty ones name no memory, and those of the driver's own memory
only what the driver gives them.
"""


def rows(text, name):
    """The rows of one X-macro: lists of their columns."""
    body = re.search(rf"#define {name}\(X\) \\\n((?:.*\\\n)*.*\n)", text)
    if body is None:
        sys.exit(f"cells.h has no {name}")
    found = [re.findall(r'"([^"]*)"|([A-Za-z0-9_]+)', row)
             for row in re.findall(r"^    X\((.*)\)(?: \\)?$", body.group(1), re.M)]
    return [[quoted or bare for quoted, bare in row] for row in found]


def classes():
    """Those that are mistakes, always or on request, by their names in C: (what they are called, what they mean)."""
    text = (ROOT / "include/tarn/audit.h").read_text()
    table = re.findall(r'X\((TARN_POINTER_\w+), \d+, "([^"]*)", (true|false),\s*(?:\\\s*)?"([^"]*)"', text)
    return {name: (title, meaning) for name, title, mistake, meaning in table
            if mistake == "true" or name in ON_REQUEST}


def page():
    text = (ROOT / "tests/planted/cells.h").read_text()
    column_of = {row[0]: row[1] for row in rows(text, "PLANTED_CARRIERS")}
    class_of = {row[0]: row[1] for row in rows(text, "PLANTED_MISTAKES")}
    reasons = {(row[0], row[1]): row[2] for row in rows(text, "PLANTED_REASONS")}
    columns = list(dict.fromkeys(column_of.values()))
    tests = {}
    for name, carrier, mistake in rows(text, "PLANTED_CELLS"):
        tests.setdefault((class_of[mistake], column_of[carrier]), []).append(name)
    known = classes()
    lines = ["", "| class | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    for name, (title, meaning) in known.items():
        cells = []
        for column in columns:
            cell, reason = tests.pop((name, column), None), reasons.pop((name, column), None)
            if (cell is None) == (reason is None):
                sys.exit(f"{name} in the column {column} has {'neither a test nor' if cell is None else 'tests and'} a reason")
            cells.append("<br>".join(f"`{test}`" for test in cell) if cell else f"None: {reason}.")
        lines.append(f"| **{title}**: {meaning} | " + " | ".join(cells) + " |")
    if tests or reasons:
        sys.exit(f"no class of mistakes, or no type: {list(tests) + list(reasons)}")
    return HEAD + "\n".join(lines) + "\n"


def main():
    text = page()
    if PAGE.exists() and PAGE.read_text() == text:
        return
    if "--check" in sys.argv[1:]:
        sys.exit(f"{PAGE} is not what the rows make; run tests/planted/table.py")
    PAGE.write_text(text)
    print(f"{PAGE}: written")


if __name__ == "__main__":
    main()
