#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs each planted access, and the correct program, under a tool, and judges what the tool says.

  overruns.py PROGRAM                        without a tool: each access is made, and says what it is
  overruns.py PROGRAM compute-sanitizer ...  under compute-sanitizer, with such further options
      --jobs N   as many at a time (8)
      --log DIR  the tool's texts go there

Each access runs in a process of its own. The tool must name its address, as out of bounds, and where the
block is live, the block too: as the nearest one, with its address and size. Of the correct program it must
name nothing.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

PLANTED = re.compile(
    r"planted (\d+): (.*): address 0x([0-9a-f]+) block 0x([0-9a-f]+) bytes (\d+) (live|stale)"
)
ACCESS = re.compile(r"(?:Address|Access (?:at|to)) 0x([0-9a-f]+)")
NEAREST = re.compile(r"nearest allocation at 0x([0-9a-f]+) of size ([\d,]+) bytes")


def run(command, log):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300
    )
    if log:
        with open(log, "w", encoding="utf-8") as file:
            file.write(done.stdout)
    return done


def judge_access(text, number):
    """What is wrong with the tool's text; '' where nothing is."""
    said = PLANTED.search(text)
    if not said or int(said[1]) != number:
        return "the program did not say its access"
    found = ACCESS.search(text)
    if not found:
        return "no access is named"
    if int(found[1], 16) != int(said[3], 16):
        return f"0x{found[1]} is named, and 0x{said[3]} was accessed"
    near = NEAREST.search(text)
    if said[6] == "live":
        if not near:
            return "no block is named"
        if int(near[1], 16) != int(said[4], 16) or int(near[2].replace(",", "")) != int(said[5]):
            return f"the block 0x{near[1]} of {near[2]} bytes is named, and 0x{said[4]} was meant"
    return ""


TEXT = """planted 7: write behind: address 0x7f0064 block 0x7f0000 bytes 100 %s
========= Invalid __global__ write of size 4 bytes
=========     Access to 0x%x is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x%x of size %s bytes
"""


def test_itself():
    assert judge_access(TEXT % ("live", 0x7F0064, 0x7F0000, "100"), 7) == ""
    assert judge_access(TEXT % ("stale", 0x7F0064, 0x7E0000, "1,000"), 7) == ""
    assert judge_access(TEXT % ("live", 0x7F0068, 0x7F0000, "100"), 7) != ""
    assert judge_access(TEXT % ("live", 0x7F0064, 0x7E0000, "100"), 7) != ""
    assert judge_access(TEXT % ("live", 0x7F0064, 0x7F0000, "1,000"), 7) != ""
    assert judge_access(TEXT % ("live", 0x7F0064, 0x7F0000, "100"), 8) != ""
    assert judge_access("planted 7: a: address 0x1 block 0x1 bytes 1 stale", 7) != ""


def main():
    test_itself()
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--log")
    parser.add_argument("program")
    parser.add_argument("tool", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    count = int(subprocess.check_output([options.program, "count"], text=True))
    if options.log:
        os.makedirs(options.log, exist_ok=True)

    def judge(what):
        log = os.path.join(options.log, f"{what}.txt") if options.log else None
        done = run(options.tool + [options.program, str(what)], log)
        if what == "correct":
            if done.returncode != 0 or "nothing was wrong" not in done.stdout:
                return f"ended with {done.returncode}: {done.stdout[-400:]}"
            summary = re.search(r"ERROR SUMMARY: (\d+) error", done.stdout)
            return "something is named" if options.tool and (not summary or summary[1] != "0") else ""
        if options.tool:
            return judge_access(done.stdout, what)
        return "" if done.returncode == 0 and PLANTED.search(done.stdout) else done.stdout[-400:]

    wrong = 0
    every = ["correct", *range(count)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for what, text in zip(every, pool.map(judge, every)):
            if text:
                wrong += 1
                print(f"{what}: {text}")
    print(f"{count} wrong accesses and a correct program: {wrong} misjudged")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
