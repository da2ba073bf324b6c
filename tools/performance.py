#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""performance.py [--check] [--simulated] [--results FOLDER] [--docs FOLDER]
performance.py --thin FILE...

Makes the tables and pictures of docs/performance.md, and the table of README.md, from the lines in
bench/results: of each row, variant and rival the newest line of a GPU. Text between two marks is replaced,
all else is left alone:

    <!-- figures: NAME -->
    <!-- end -->

--check      writes nothing; fails when a file is not as it would be written, or results could be thinner
--thin       leaves the newest line of each figure in a file of results, the others out, and of a line the fields
             that say nothing
--docs       writes there, and the README beside that folder
--simulated  takes the lines of the simulated driver: to see the pictures, not for keeping
"""
import argparse
import pathlib
import re
import sys
import textwrap

sys.dont_write_bytecode = True  # nothing is left beside the sources

import charts
import results
from charts import number

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = re.compile(r'AT_(MOST|LEAST)(?:_WITH)?\((?:"([^"]*)", )?"([^"]*)", "([^"]*)", ([0-9.]+), "([^"]*)"\)')
DEVICE = "NVIDIA H200"  # of which the limits speak
ORDERS = ["random", "FIFO", "LIFO", "alternating", "comb"]
# Not of the rows: figures of tools/audit, of two builds beside each other, and of the programs' traces, which have a
# section of their own.
BESIDE, TRACES = "beside.jsonl", "traces.jsonl"
NOT_SHOWN = (BESIDE, "adversaries.jsonl", "frameworks.jsonl", TRACES)
MEMORY = "reserved over requested"
# What makes a figure, in any file of results: all that was measured under one of these is one figure.
FIGURE = ("device", "simulated", "row", "variant", "rival", "framework", "workload", "allocator", "case",
          "compiler")


def newest(lines):
    """Of each figure the newest line, in the order of the figures' first appearance. Of lines with one date the
    last counts; of a build with changes, marked dirty, a line counts where no other has the figure."""
    kept = {}
    for text, line in lines:
        key = tuple(line.get(name) for name in FIGURE)
        rank = (not line["commit"].endswith("-dirty"), line["date"])
        if key not in kept or kept[key][0] <= rank:
            kept[key] = (rank, text, line)
    return [(text, line) for _, text, line in kept.values()]


def thin(path):
    """Leaves the newest line of each figure in the file, and makes it lean."""
    before = results.read(path)
    after = newest(before)
    path.write_text(results.text_of([line for _, line in after]), encoding="utf-8")
    print(f"{path}: {len(after)} of {len(before)} lines are kept")


def is_thin(path):
    before = results.read(path)
    superseded = len(before) - len(newest(before))
    leanest = results.text_of([line for _, line in before]).splitlines()
    fat = sum(text != lean for (text, _), lean in zip(before, leanest))
    if superseded or fat:
        print(f"{path}: newer lines stand for {superseded}, and {fat} could be leaner; run "
              f"tools/performance.py --thin {path}")
    return not superseded and not fat


def by_key(lines):
    return {(line["row"], line["variant"], line["rival"]): line for _, line in newest(lines)}


class Figures:
    """The newest line of each row, variant and rival, in the order of their first appearance."""

    def __init__(self, folder, simulated):
        shown = [path for path in sorted(folder.glob("*.jsonl")) if path.name not in NOT_SHOWN]
        lines = [result for path in shown for result in results.read(path)]
        self.instructions = [line for _, line in lines if "case" in line]
        wanted = [result for result in lines if "row" in result[1] and result[1]["simulated"] == simulated and
                  (simulated or result[1]["device"] == DEVICE)]
        self.lines = by_key(wanted)
        traces = results.read(folder / TRACES) if (folder / TRACES).exists() else []
        # A program peaks at the same bytes on the simulator.
        self.traces = by_key(result for result in traces if result[1]["simulated"] == simulated or
                             result[1]["variant"].endswith(": " + MEMORY))

    def find(self, row, variant, rival=None):
        return self.lines.get((row, variant, rival))

    def of_row(self, row):
        return [line for line in self.lines.values() if line["row"] == row]

    def matching(self, row, pattern, rival=None):
        """[(number in the variant, line)], by number. The pattern matches the whole variant, or what
        stands before ", up to", which says that the device was too small for the real one."""
        found = {}
        for line in self.of_row(row):
            match = re.fullmatch(pattern + "(?:, up to .*)?", line["variant"])
            if match and line["rival"] == rival:
                found[float(match.group(1))] = line
        return sorted(found.items())


def read_limits():
    """[(work, [goal])], from the one table where targets stand."""
    text = (ROOT / "bench/limits.c").read_text()
    table = text[text.index("limits[] = {"):text.index("// clang-format on")]
    works = []
    for entry in re.split(r"\n    \{", table)[1:]:
        goals = [{"least": kind == "LEAST", "needs": needs, "row": row, "variant": variant,
                  "target": float(target), "unit": unit}
                 for kind, needs, row, variant, target, unit in LIMIT.findall(entry)]
        works.append((re.match(r'"([^"]*)"', entry).group(1), goals))
    return works


def spread(line):
    unit = f" {line['unit']}" if line["unit"] else ""
    text = f"{number(line['median'])}{unit}"
    if line["samples"] > 1:
        text += f" ({number(line['p10'])} to {number(line['p90'])})"
    return text


def run_of(line):
    return f"{line['date'][:10]} `{line['commit']}`"


def is_met(goal, value):
    return value >= goal["target"] if goal["least"] else value <= goal["target"]


def target_text(goal):
    return f"at {'least' if goal['least'] else 'most'} {goal['target']:g} {goal['unit']}".rstrip()


def wrapped(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def table(head, rows):
    rules = "| " + " | ".join("---" for _ in head) + " |"
    return "\n".join(["| " + " | ".join(head) + " |", rules] +
                     ["| " + " | ".join(cells) + " |" for cells in rows])


def runs_text(lines):
    runs = list(dict.fromkeys(run_of(line) for line in sorted(lines, key=lambda line: line["date"])))
    return "\n\n" + wrapped(f"{'Run' if len(runs) == 1 else 'Runs'}: {', '.join(runs)}.")


def grid(what, labels, columns):
    """A row for each label, a column for each (title, find): medians of the lines that find(label) answers, and the
    runs they are of. Rows and columns without a line are left out."""
    found = {(label, title): find(label) for label in labels for title, find in columns}
    labels = [label for label in labels if any(found[label, title] for title, _ in columns)]
    titles = [title for title, _ in columns if any(found[label, title] for label in labels)]
    if not labels:
        return ""
    lines = [line for line in found.values() if line]
    units = {line["unit"] for line in lines}
    if len(units) == 1 and "" not in units:  # stands in the head, once
        what += f" ({units.pop()})"
    cells = [[str(label)] + [median_text(found[label, title], units) for title in titles] for label in labels]
    return table([what] + titles, cells) + runs_text(lines)


def median_text(line, units):
    if line is None:
        return ""
    return f"{number(line['median'])} {line['unit'] if line['unit'] in units else ''}".rstrip()


def row_table(figures, row, pattern=".*"):
    """What Tarn was measured at in a row, and each rival in a column of its own; what accounts say is left out."""
    lines = [line for line in figures.of_row(row) if re.fullmatch(pattern, line["variant"])]
    labels = [line["variant"] for line in lines if line["rival"] is None and
              not (row in ("growth", "capture") and ": " in line["variant"])]
    rivals = dict.fromkeys(line["rival"] for line in lines if line["rival"] and line["variant"] in labels)
    return grid("what", labels, [("Tarn", lambda label: figures.find(row, label))] +
                [(rival, lambda label, rival=rival: figures.find(row, label, rival)) for rival in rivals])


def column(figures, row, title, variant, rival=None):
    """A column of a grid: variant has {} where the label goes, and may end in ", up to ..." of a small device."""
    def find(label):
        pattern = re.escape(variant.format(label)) + "(, up to .*)?"
        return next((line for line in figures.of_row(row)
                     if line["rival"] == rival and re.fullmatch(pattern, line["variant"])), None)
    return title, find


def numbers_of(figures, row, pattern):
    """The numbers that stand where the pattern has a group, in the variants of a row, sorted."""
    return sorted({int(number) for number, _ in figures.matching(row, pattern)})


def point(x, line):
    return (x, line["median"], line["p10"], line["p90"])


def curve(name, found, dash=""):
    return {"name": name, "points": [point(x, line) for x, line in found], "dash": dash}


def drawable(series):
    return [entry for entry in series if entry["points"]]


def value_of(line):
    return (line["median"], line["p10"], line["p90"]) if line else None


# ---- the sections: each returns a table, a picture or both, or neither -----------------------------


def limits(figures):
    cells, entries, lines = [], [], []
    for _, goals in read_limits():
        for goal in goals:
            line = figures.find(goal["row"], goal["variant"])
            name = f"{goal['row']}: {goal['variant']}"
            if line is None:
                needs = f", needs {goal['needs']}" if goal["needs"] else ""
                cells.append([name, "", target_text(goal), f"not measured{needs}"])
                entries.append((name, None, ""))
                continue
            value = line["median"]
            met = is_met(goal, value)
            cells.append([name, spread(line), target_text(goal), "met" if met else "**missed**"])
            lines.append(line)
            times = goal["target"] / value if goal["least"] else value / goal["target"]
            entries.append((name, max(times, 0.001), f"{number(value)} {goal['unit']}"))
    picture = charts.distances(
        "Every limit, and how far the newest figure is from it",
        "Medians of the newest run of each on an H200; the figure stands at the right.", entries)
    verdicts = [verdict.strip("*").split(",")[0] for _, _, _, verdict in cells]
    said = ", ".join(f"{verdicts.count(word)} {word}" for word in ("met", "missed", "not measured"))
    return f"{said}.\n\n" + table(["what", "measured", "limit", ""], cells) + runs_text(lines), picture


def pair(figures):
    sizes = ["512 B", "64 KiB", "1 MiB", "32 MiB"]
    rival = "cuMemAllocFromPoolAsync"
    series = [{"name": name, "values": [value_of(figures.find("pair", s, who)) for s in sizes]}
              for name, who in (("Tarn", None), (rival, rival))]
    if not any(series[0]["values"]):
        return row_table(figures, "pair"), None
    return row_table(figures, "pair"), charts.bars(
        "An allocation and its free, one thread", "Median, with 10th to 90th percentile; less is better.",
        "nanoseconds a pair", sizes, series, {"1 MiB": goal_of("pair", "1 MiB")})


def goal_of(row, variant):
    return next(g["target"] for _, goals in read_limits() for g in goals
                if (g["row"], g["variant"]) == (row, variant))


def threads(figures):
    rival, lock = "cuMemAllocFromPoolAsync", "private spin lock"
    wanted = [("Tarn, own streams", None, r"(\d+) threads"),
              ("Tarn, one stream", None, r"(\d+) threads, one stream"),
              ("cuMemAllocFromPoolAsync", rival, r"(\d+) threads"),
              ("private spin lock", lock, r"(\d+) threads")]
    series = drawable([curve(name, figures.matching("scaling", pattern, who) or
                             ([] if "one stream" in pattern else
                              figures.matching("pair", r"1 MiB, (\d+) threads?", who)))
                       for name, who, pattern in wanted])
    text = grid("threads", numbers_of(figures, "scaling", r"(\d+) threads"), [
        column(figures, "scaling", title, variant, who) for title, variant, who in (
            ("Tarn, own streams", "{} threads", None), ("Tarn, one stream", "{} threads, one stream", None),
            (f"{rival}, own streams", "{} threads", rival), (f"{rival}, one stream", "{} threads, one stream", rival),
            (lock, "{} threads", lock))])
    if not series:
        return text, None
    return text, charts.lines(
        "Pairs of all threads together", "A spin lock private to each thread shows what the machine gives.",
        "threads", "million pairs a second", series,
        [(16, goal_of("pair", "1 MiB, 16 threads"), 0)])


def around(figures):
    rival = "cuMemAllocFromPoolAsync"
    series = drawable([curve("Tarn, streams", figures.matching("scaling", r"(\d+) streams")),
                       curve("driver's pool, streams",
                             figures.matching("scaling", r"(\d+) streams", rival)),
                       curve("Tarn, pools", figures.matching("scaling", r"(\d+) pools"))])
    labels = sorted({count for what in ("streams", "pools")
                     for count in numbers_of(figures, "scaling", rf"(\d+) {what}")})
    text = grid("how many", labels, [column(figures, "scaling", "Tarn, streams", "{} streams"),
                                     column(figures, "scaling", f"{rival}, streams", "{} streams", rival),
                                     column(figures, "scaling", "Tarn, pools", "{} pools")])
    if not series:
        return text, None
    return text, charts.lines(
        "A pair on each of many streams or pools, in turn", "One thread goes round them; flat is right.",
        "streams or pools", "nanoseconds a pair", series, log_y=False)


def producers(figures):
    rival = "cuMemAllocFromPoolAsync"
    series = drawable([curve("Tarn", figures.matching("producers", r"(\d+) and \d+ threads")),
                       curve(rival, figures.matching("producers", r"(\d+) and \d+ threads", rival))])
    if not series:
        return "", None
    return row_table(figures, "producers"), charts.lines(
        "Allocated by one thread, freed by another", "Couples of threads, each on a stream of its own.",
        "couples", "million pairs a second", series)


def live(figures):
    series = drawable([curve(order, figures.matching("live", order + r", (\d+) blocks"))
                       for order in ORDERS])
    if not series:
        return "", None
    counts = sorted({count for order in ORDERS for count in numbers_of(figures, "live", order + r", (\d+) blocks")})
    text = grid("order of frees", ORDERS,
                [column(figures, "live", f"{count:,} blocks", f"{{}}, {count} blocks") for count in counts])
    return text, charts.lines(
        "A free and an allocation among many live blocks", "Tarn alone, blocks of up to 64 KiB, by order of frees.",
        "live blocks", "nanoseconds a step", series)


def is_step(line):
    """Whether the factor between cases speaks of it: as tools/instructions.sh --limits."""
    return not re.search("^growth|^replay|another thread", line["case"])


def instructions(figures):
    cells, points, steps = [], {}, {}
    for line in figures.instructions:
        total = line["library"] + line["driver"] + line["other"]
        match = re.fullmatch(r"(\w+), up to (\d+) KiB, (\d+) blocks(, no moves)?", line["case"])
        if not match or match.group(1) not in ORDERS:
            cells.append([line["case"], number(line["library"]), number(line["driver"]),
                          number(line["other"]), number(total)])
            continue
        order, kib, count = match.group(1), int(match.group(2)), int(match.group(3))
        size = {4096: "4 MiB", 65536: "64 MiB", 1048576: "1 GiB"}.get(kib, f"{kib} KiB")
        title = f"{count:,} up to {size}{match.group(4) or ''}"
        steps.setdefault(title, {})[order] = number(line["library"])
        if kib == 64:
            points.setdefault(order, []).append(
                (float(count), line["library"], line["library"], line["library"]))
    if not cells:
        return "", None
    line = figures.instructions[-1]
    least, most = (choose((other for other in figures.instructions if is_step(other)),
                          key=lambda other: other["library"]) for choose in (min, max))
    text = table(["what, each time", "Tarn", "simulated driver", "C library", "all"], cells)
    text += "\n\nTarn's own instructions of a step, by order of frees and live blocks:\n\n"
    text += table(["order"] + list(steps),
                  [[order] + [of.get(order, "") for of in steps.values()] for order in ORDERS])
    text += "\n\n" + wrapped(
        f"From {number(least['library'])} ({least['case']}) to {number(most['library'])} ({most['case']}): "
        f"a factor of {most['library'] / least['library']:.2f}. Counted on {line['date'][:10]}, commit "
        f"`{line['commit']}`, built by {line['compiler']}.")
    return text, charts.lines(
        "Instructions of a free and an allocation among live blocks",
        "Tarn's own, counted by callgrind on the simulated driver, by order of frees.", "live blocks",
        "instructions a step", [{"name": order, "points": points[order]} for order in ORDERS
                                if order in points], log_y=False)


def trace(figures):
    return row_table(figures, "trace"), None


def recorded(figures):
    return row_table(figures, "recorded", r".*: (event(, first replay)?|reserved over requested)"), None


def programs(figures):
    """The programs whose shapes change: memory, and an event beside the best of the others."""
    names = list(dict.fromkeys(variant.partition(": ")[0] for _, variant, _ in figures.traces))
    who = [("Tarn", None), ("driver's pool", "cuMemAllocFromPoolAsync"), ("PyTorch", "PyTorch"),
           ("PyTorch, expandable segments", "PyTorch, expandable segments")]

    def value(name, what, rival):
        line = figures.traces.get(("recorded", f"{name}: {what}", rival))
        return line["median"] if line else None

    def shown(name, what, rival=None):
        of = value(name, what, rival)
        return "" if of is None else f"{of:.3f}" if what == MEMORY else number(of)

    def best(name, what):
        times = [of for of in (value(name, what, rival) for _, rival in who[1:]) if of is not None]
        return number(min(times)) if times else ""

    cells = [[name, shown(name, "GiB requested at the peak", "as recorded"),
              *(shown(name, MEMORY, rival) for _, rival in who), shown(name, "event"), best(name, "event"),
              shown(name, "event, first replay"), best(name, "event, first replay")] for name in names]
    if not cells:
        return "", None
    text = table(["program", "peak live, GiB", *(name for name, _ in who), "event, ns", "best other",
                  "first replay, ns", "best other"], cells)
    own = [line for (_, _, rival), line in figures.traces.items() if rival is None]
    text += "\n\n" + runs_text([line for line in own if not line["simulated"]])
    if any(line["simulated"] for line in own):
        commits = sorted({line["commit"] for line in own if line["simulated"]})
        text += (f"\nTarn's memory is that of the simulator at {', '.join(f'`{commit}`' for commit in commits)}, "
                 "where a program\npeaks at the same bytes; events are of the runs before.")
    return text, charts.rows(
        "Memory taken, in times of what a program needs at its peak",
        "Nineteen recorded programs whose shapes change, each in its first replay.",
        "peak reserved over peak live (logarithmic)", names,
        [{"name": name, "values": [value(trace, MEMORY, rival) for trace in names]}
         for name, rival in who], (1, "peak live"))


def fragmentation(figures):
    rival = "cuMemAllocAsync"
    series = drawable([curve(name, figures.matching("fragmentation", prefix + r"after (\d+) steps", who), dash)
                       for prefix, dash, tarn, other in (("", "", "Tarn", rival),
                                                         ("by octave: ", "5 3", "Tarn, by octave",
                                                          rival + ", by octave"))
                       for name, who in ((tarn, None), (other, rival))])
    if not series:
        return "", None
    steps = numbers_of(figures, "fragmentation", r"(?:by octave: )?after (\d+) steps")
    text = grid("steps", steps, [column(figures, "fragmentation", title, variant, who) for title, variant, who in (
        ("Tarn", "after {} steps", None), (rival, "after {} steps", rival),
        ("Tarn, by octave", "by octave: after {} steps", None),
        (f"{rival}, by octave", "by octave: after {} steps", rival))])
    return text, charts.lines(
        "Memory reserved over memory allocated, as time goes by",
        "The random trace, at one moment after another; by octave, most blocks are small.", "steps",
        "reserved over allocated", series,
        [(None, goal_of("trace", "reserved over allocated"), None)],
        log_y=False, from_zero=False, limit_name="limit of the peaks")


def growth(figures):
    names = ["8 GiB", "reserve of 8 GiB", "trim of 8 GiB"]
    values = [value_of(figures.find("growth", name)) for name in names]
    if not any(values):
        return row_table(figures, "growth"), None
    return row_table(figures, "growth"), charts.bars(
        "8 GiB: grown in steps of 32 MiB, reserved at once, trimmed", "Median, with 10th to 90th percentile; less is better.",
        "microseconds", names, [{"name": "Tarn", "values": values}],
        {name: goal_of("growth", name) for name in names[:2]})


def checkpoint(figures):
    series = drawable([curve(what, figures.matching("checkpoint", what + r", (\d+) blocks"))
                       for what in ("take", "check", "restore")])
    targets = [(10000, goal_of("checkpoint", f"{entry['name']}, 10000 blocks"), i)
               for i, entry in enumerate(series)]
    if not series:
        return "", None
    text = grid("blocks", numbers_of(figures, "checkpoint", r"take, (\d+) blocks"), [
        column(figures, "checkpoint", what, what + ", {} blocks")
        for what in ("take", "restore", "check", "check shuffled", "check after restores")])
    return text, charts.lines(
        "Checkpoints of a pool's state, without its bytes", "A restore revives half of the blocks; less is better.",
        "live blocks", "microseconds", series, targets)


def contents(figures):
    names = ["20 GiB, device", "20 GiB, pinned", "64 KiB, device", "64 KiB, pinned"]
    values = [value_of(figures.find("contents", name)) for name in names]
    copy = "cuMemcpyAsync"
    text = grid("bytes, to", names, [column(figures, "contents", title, variant, who) for title, variant, who in (
        ("worse of both", "{}", None), ("out", "{}: out", None), (f"{copy} out", "{}: out", copy),
        ("in", "{}: in", None), (f"{copy} in", "{}: in", copy),
        ("call out", "{}: out, call", None), ("call in", "{}: in, call", None))])
    if not any(values):
        return text, None
    return text, charts.bars(
        "Checkpoints with their bytes, beside cuMemcpyAsync", "The worse of out and in; more is better.",
        "% of one copy of as many bytes", names, [{"name": "Tarn", "values": values}],
        {name: goal_of("contents", name) for name in names})


def replay(figures):
    names = ["one graph", "ordered graphs"]
    series = [{"name": name, "values": [value_of(figures.find("replay", n, who)) for n in names]}
              for name, who in (("tarn_graph_replay", None), ("cuGraphLaunch", "cuGraphLaunch"))]
    if not any(series[0]["values"]):
        return "", None
    return row_table(figures, "replay"), charts.bars(
        "A replay beside a launch of the same graph", "What Tarn adds is in the table.", "nanoseconds",
        names, series)


def capture(figures):
    series = drawable([curve("Tarn", figures.matching("capture", r"(\d+) kernels"))])
    if not series:
        return "", None
    return row_table(figures, "capture"), charts.lines(
        "A capture from its begin to the first replay", "Each kernel on a block allocated and freed in the capture.",
        "kernels", "microseconds", series)


def host(figures):
    series = drawable([
        curve(f"blocks up to {kib} KiB",
              figures.matching("host", rf"(\d+) blocks up to {kib} KiB, of what is allowed"))
        for kib in (2, 64)])
    if not series:
        return "", None
    labels = [line["variant"].replace(", of what is allowed", "") for line in figures.of_row("host")
              if line["variant"].endswith(", of what is allowed")]
    text = grid("what", labels, [column(figures, "host", what, "{}, " + what)
                                 for what in ("of what is allowed", "allocated", "resident")])
    return text, charts.lines(
        "Host memory for the library's records", "In percent of 96 bytes a live block and 0.05 % of mapped bytes.",
        "live blocks", "% of what is allowed", series, [(None, 100, None)])


# What the README shows: the work in its words, the row and the variant.
RIVALS_SHOWN = [
    ("allocation and free of 1 MiB, one thread", "pair", "1 MiB"),
    ("the same on 16 threads, each on its own stream", "pair", "1 MiB, 16 threads"),
    ("free and allocation among 10,000 live blocks up to 4 MiB", "trace", "step"),
    ("cold growth to 8 GiB in steps of 32 MiB", "growth", "8 GiB"),
] + [entry for name, program in (("training", "a transformer's training step"), ("diffusion", "a diffusion loop"),
                                 ("decode", "an LLM's decode ladder"))
     for entry in ((f"{program}, recorded: an event", "recorded", f"{name}: event"),
                   ("its memory, peak reserved over peak requested", "recorded", f"{name}: reserved over requested"))]

# The driver's pool is one allocator, whichever of its two functions a row calls.
RIVAL_COLUMNS = [("driver's pool, `cuMemAllocFromPoolAsync`", ("cuMemAllocFromPoolAsync", "cuMemAllocAsync")),
                 ("PyTorch", ("PyTorch",)),
                 ("PyTorch, expandable segments", ("PyTorch, expandable segments",))]


def beside(figures, line, rivals):
    """What one of those rivals was measured at in the run of that line; an older figure is none."""
    for rival in rivals:
        other = figures.find(line["row"], line["variant"], rival)
        if other and run_of(other) == run_of(line):
            return f"{number(other['median'])} {other['unit']}".rstrip()
    return ""


def rivals(figures):
    cells, machine = [], ""
    for work, row, variant in RIVALS_SHOWN:
        line = figures.find(row, variant)
        if line:
            version = line["driver_version"]
            machine = f"{line['device']}, CUDA {version // 1000}.{version % 1000 // 10}"
            cells.append([work, f"{number(line['median'])} {line['unit']}".rstrip()] +
                         [beside(figures, line, names) for _, names in RIVAL_COLUMNS] + [run_of(line)])
    if not cells:
        return "", None
    head = ["medians on one " + machine, "Tarn"] + [title for title, _ in RIVAL_COLUMNS] + ["run"]
    return table(head, cells), None


SECTIONS = [limits, pair, threads, around, producers, live, instructions, trace, recorded, programs, fragmentation,
            growth, checkpoint, contents, replay, capture, host]
README_SECTIONS = [rivals]


def section_text(section, figures, outputs, docs):
    text, picture = section(figures)
    parts = []
    if picture:
        path = docs / "images" / f"performance-{section.__name__}.svg"
        outputs[path] = picture
        title = re.search("<title>(.*)</title>", picture).group(1)
        parts.append(f"![{title}](images/{path.name})")
    parts.append(text or "No figures of an H200 yet.")
    return f"<!-- figures: {section.__name__} -->\n\n" + "\n\n".join(parts) + "\n\n<!-- end -->"


def page_text(name, sections, figures, outputs, docs):
    page = (ROOT / name).read_text()
    marks = re.findall(r"<!-- figures: (\w+) -->", page)
    by_name = {section.__name__: section for section in sections}
    if sorted(marks) != sorted(by_name):
        sys.exit(f"{name} does not have a mark for each section, once")
    return re.sub(r"<!-- figures: (\w+) -->.*?<!-- end -->",
                  lambda m: section_text(by_name[m.group(1)], figures, outputs, docs), page, flags=re.S)


def write(outputs, check):
    stale = [path for path, text in outputs.items()
             if not path.exists() or path.read_text() != text]
    for path in stale:
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(outputs[path])
        print(f"{path}: {'is not what the lines make; run make performance' if check else 'written'}")
    return stale


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--thin", type=pathlib.Path, nargs="+", default=[])
    options = parser.parse_args()

    if options.thin:
        for path in options.thin:
            thin(path)
        return 0

    figures = Figures(options.results, options.simulated)
    outputs = {}
    for name, folder, sections in (("docs/performance.md", options.docs, SECTIONS),
                                   ("README.md", options.docs.parent, README_SECTIONS)):
        outputs[folder / pathlib.Path(name).name] = page_text(name, sections, figures, outputs, options.docs)
    stale = write(outputs, options.check)
    thick = [path for path in sorted(options.results.glob("*.jsonl"))
             if options.check and path.name != BESIDE and not is_thin(path)]
    return 1 if options.check and (stale or thick) else 0


if __name__ == "__main__":
    sys.exit(main())
