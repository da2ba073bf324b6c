#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""audits.py MISTAKES FILE -- whether each line of FILE, which a suite of tests/planted wrote, is an audit's JSON object
with so many mistakes, whose counts add up."""
import json
import sys


def judge(line, mistakes):
    audit = json.loads(line)
    assert len(audit["mistakes"]) == mistakes, f"{len(audit['mistakes'])} mistakes"
    assert sum(audit["counts"].values()) == audit["pointers"], "the counts do not add up"
    for pointer in audit["mistakes"]:
        assert audit["counts"][pointer["class"]] == 1, "the class was not counted"
        assert int(pointer["address"], 16) > 0, "no address"
        assert set(pointer) >= {"node", "type", "place", "index", "offset", "bytes"}, "members are missing"
        assert ("kernel" in pointer) == (pointer["type"] == "kernel"), "a kernel without a name, or a name without one"


def main():
    mistakes, path = int(sys.argv[1]), sys.argv[2]
    lines = open(path, encoding="utf-8").read().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            judge(line, mistakes)
        except (AssertionError, ValueError, KeyError) as error:
            sys.exit(f"{path}:{number}: {error!r}\n{line}")
    if not lines:
        sys.exit(f"{path}: has no audits")
    print(f"{len(lines)} audits")


if __name__ == "__main__":
    main()
