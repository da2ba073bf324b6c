#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py [--check]
table.py CLASS [COLUMN]

Makes docs/planted.md from the rows of tests/planted/cells.h: which class of mistake is planted in
which type of node, by how many tests. With --check it writes nothing, and fails when the file is
another. With a class, as "freed external", and a column of the page it prints the tests. It always
fails when a class and a type have neither a test nor a reason, or both."""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/planted.md"

ON_REQUEST = ("TARN_POINTER_OVERWRITES",)

HEAD = """# Planted mistakes

This page lists the mistakes that the tests plant in captured graphs, by class and by type of node.
Each test puts one wrong address between correct addresses, and audits the graph. The address is
wrong from the beginning, or becomes wrong after the capture. The test judges all facts that the
audit reports of the address: class, node, kernel, parameter, offset, address, bytes, block and
pool. Each test runs twice: in a graph that `tarn_capture_begin` captured, and in a graph that the
program captured without Tarn.

`make test LABEL=planted` runs all of them. `tests/planted/table.py` makes this page from
`tests/planted/cells.h`.

## The classes

The class says where the address points:

"""

MIDDLE = """
*Overwrites* is a mistake on request alone: in these tests the options of the audit refuse the
class.

## The tests

In the column of child graphs the mistake is in a node of the child graph. In the column of
conditional nodes the mistake is in a node of a body, and the audit is given the body. Event nodes
and empty nodes name no memory. Nodes of the driver's own memory name only memory from the driver.

- `named 3`: three tests plant the mistake, and the audit must name each.
- `none (a)`: no test plants the mistake, for the reason below the table.

`tests/planted/table.py "freed external" copy` prints the tests of a cell.

"""

COLUMNS = 100


def item(text):
    return textwrap.fill(text, COLUMNS, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False) + "\n"


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


def cells():
    """{class: {column: its tests, or the reason for none}} of the classes that a graph can have."""
    text = (ROOT / "tests/planted/cells.h").read_text()
    column_of = {row[0]: row[1] for row in rows(text, "PLANTED_CARRIERS")}
    class_of = {row[0]: row[1] for row in rows(text, "PLANTED_MISTAKES")}
    reasons = {(row[0], row[1]): row[2] for row in rows(text, "PLANTED_REASONS")}
    tests = {}
    for name, carrier, mistake in rows(text, "PLANTED_CELLS"):
        tests.setdefault((class_of[mistake], column_of[carrier]), []).append(name)
    found = {}
    for name in classes():
        for column in dict.fromkeys(column_of.values()):
            cell, reason = tests.pop((name, column), None), reasons.pop((name, column), None)
            if (cell is None) == (reason is None):
                sys.exit(f"{name} in the column {column} has {'neither a test nor' if cell is None else 'tests and'} a reason")
            found.setdefault(name, {})[column] = cell or reason
    strangers = list(tests) + list(reasons)
    if strangers:
        sys.exit(f"no class of mistakes, or no type: {strangers}")
    return found


def page():
    known, found = classes(), cells()
    columns = list(next(iter(found.values())))
    text = HEAD + "".join(item(f"*{known[name][0]}*: {known[name][1]}") for name in found) + MIDDLE
    text += "| class | " + " | ".join(columns) + " |\n" + "| --- " * (len(columns) + 1) + "|\n"
    letters = {}
    for name, row in found.items():
        said = [f"named {len(cell)}" if isinstance(cell, list) else
                f"none ({letters.setdefault(cell, chr(ord('a') + len(letters)))})" for cell in row.values()]
        text += f"| *{known[name][0]}* | " + " | ".join(said) + " |\n"
    return text + "\n" + "".join(item(f"({letter}) {reason}") for reason, letter in letters.items())


def print_tests(title, column=None):
    known, found = classes(), cells()
    row = next((row for name, row in found.items() if known[name][0] == title), None)
    if row is None or column not in (None, *row):
        sys.exit(f"docs/planted.md has no row {title}" + (f" with a column {column}" if column else ""))
    for cell in row.values() if column is None else [row[column]]:
        print("\n".join(cell) if isinstance(cell, list) else f"none: {cell}")


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if words:
        print_tests(*words[:2])
        return
    text = page()
    if PAGE.exists() and PAGE.read_text() == text:
        return
    if "--check" in sys.argv[1:]:
        sys.exit(f"{PAGE} is not what the rows make; run tests/planted/table.py")
    PAGE.write_text(text)
    print(f"{PAGE}: written")


if __name__ == "__main__":
    main()
