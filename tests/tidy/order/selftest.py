#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""selftest.py [CC...] -- shows that order.py fires. A small tree that breaks no rule is clean; with
each of bad/*.txt written into it there is exactly one violation, and it is the expected one.

A snippet is as those of tests/tidy/bad: the path, the sentence that is expected, and the text."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ORDER = HERE.parent / "order.py"

# Folder low has the units one and two, high has top; "x > y" below says that x uses y.
GOOD = {
    "src/CMakeLists.txt": """\
set(TARN_SOURCES # lowest first
    low/bits.h low/one.c low/two.c
    high/top.c)
set(TARN_SIM_SOURCES
    sim/core/ground.c
    sim/call/entry.c sim/call/other.c)
""",
    # A typedef of the public headers, for a struct of high.
    "include/tarn/types.h": "typedef struct tarn_top tarn_top;\ntypedef int (*tarn_call)(int value);\n",
    "src/low/bits.h": "static inline int bit(int at) { return 1 << at; }\n",
    "src/low/one.h": """\
#pragma once
#include "low/bits.h"
#include "tarn/types.h"
struct two; /* declared, and named where slots.txt allows it */
struct one { const struct two *_Atomic owner; tarn_top *top; int (*call)(int); };
int one(int value);
/* Uses nothing above: int two(int); */
static inline int one_more(int value) { return one(value) + bit(1); }
""",
    # An exception: one > two.
    "src/low/one.c": """\
#include "low/one.h"
int two_exempt(int value);
int one(int value) { const char *s = "two(top())"; return two_exempt(value) + *s; }
""",
    "src/low/two.h": """\
#pragma once
#include <low/one.h>
struct two { struct one one; };
int two(int value);
int two_exempt(int value);
""",
    "src/low/two.c": """\
#include "low/two.h"
int two(int value) { return one_more(value); }
int two_exempt(int value) { return value; }
""",
    "src/high/top.h": """\
#pragma once
#include "low/two.h"
struct tarn_top { struct two two; };
int top(int value);
""",
    "src/high/top.c": """\
#include "high/top.h"
int (*const top_table[])(int) = {one, two};
int top(int value) { return top_table[value](two(value)); }
""",
    # Units of one folder of the simulator may use each other.
    "src/sim/core/ground.c": "int ground(int value) { return value; }\n",
    "src/sim/core/ground.h": "int ground(int value);\n",
    "src/sim/call/entry.h": "int entry(int value);\n",
    "src/sim/call/entry.c": """\
#include "sim/call/entry.h"
#include "sim/core/ground.h"
int other(int value);
int entry(int value) { return ground(value) + other(value); }
""",
    "src/sim/call/other.c": """\
#include "sim/call/entry.h"
int other(int value);
int other(int value) { return value > 0 ? entry(value - 1) : 0; }
""",
    "command/find.h": "#pragma once\nint found(void);\n",
    "command/find.c": '#include "find.h"\nint found(void) { return 1; }\n',
    "command/list.c": '#include "find.h"\nint listed(void) { return found(); }\n',
    "bench/clock.h": "#pragma once\nint clock_now(void);\n",
    "bench/clock.c": '#include "clock.h"\nint clock_now(void) { return 1; }\n',
    "bench/row.h": '#pragma once\n#include "clock.h"\nint row(void);\n',
    "bench/row.c": '#include "row.h"\nint row(void) { return clock_now(); }\n',
    "tests/tidy/order/exceptions.txt": "# Alone.\nlow/one uses low/two two_exempt: a reason\n",
    "tests/tidy/order/slots.txt":
        "src/low/one.h two owner: a reason\nsrc/low/one.h tarn_top top: a reason\n",
    "tests/tidy/order/pointers.txt": "src/low/one.h call: nobody\nsrc/high/top.c top_table: both\n",
}


def run(compiler, changes):
    """A status and lines, of the good tree with some files changed; None takes one away."""
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in {**GOOD, **changes}.items():
            if text is None:
                continue
            file = pathlib.Path(scratch, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        command = [sys.executable, "-B", str(ORDER), "--build", scratch, scratch, *compiler]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).splitlines()


def judge_good(compiler):
    status, lines = run(compiler, {})
    return [] if status == 0 and len(lines) == 1 else ["the good tree is not clean:", *lines]


def judge_snippet(compiler, snippet):
    path, expected, *text = snippet.read_text().split("\n")
    status, lines = run(compiler, {path: "\n".join(text)})
    if status == 1 and lines[:-1] == [expected]:
        return []
    return [f"{snippet.name} should give: {expected}", *lines]


def judge_nothing(compiler):
    """A tree in which there is nothing to see."""
    lists = "set(TARN_SOURCES)\nset(TARN_SIM_SOURCES)\n"
    status, lines = run(compiler, {**dict.fromkeys(GOOD), "src/CMakeLists.txt": lists})
    expected = [f"order: looked at no {what}" for what in (
        "units", "objects", "includes", "uses", "names", "units of bench", "units of command", "pointers to functions")]
    if status == 1 and lines[:-1] == expected:
        return []
    return ["an empty tree should say that nothing was looked at:", *lines]


def main():
    compiler = sys.argv[1:] or ["cc"]
    snippets = sorted(HERE.glob("bad/*.txt"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        jobs = [workers.submit(judge_good, compiler), workers.submit(judge_nothing, compiler)]
        jobs += [workers.submit(judge_snippet, compiler, snippet) for snippet in snippets]
        failures = [job.result() for job in jobs if job.result()]
    for lines in failures:
        print("\n".join(lines))
    print(f"{len(snippets)} snippets, {len(failures)} failures")
    return 1 if failures or not snippets else 0


if __name__ == "__main__":
    sys.exit(main())
