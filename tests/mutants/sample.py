#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sample.py [--base REVISION | PATH...] [--sample N] [--seed N] [--jobs N] [--out FOLDER] [--list]

Mutants that nobody chose: universalmutator's rules for C, and lines that change places, on the functions that differ from
REVISION (origin/main), or on files and folders. A seeded sample of them; each one is built in a copy of the tree, and
judged by its file's suite, then by api, fault, model and pairs, until one fails. One that does not compile, or whose
object code is the original's, does not count. Results are lines of JSON in FOLDER/results.jsonl, one for each
mutant as it is judged: who is interrupted calls the same again. Survivors without a reason in tests/mutants/survivors.txt
are printed with their difference, and the exit status is 1.

tools/mutate.sh sets up the Python that this runs in."""
import argparse
import contextlib
import hashlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXCUSES = ROOT / "tests/mutants/survivors.txt"
RULES = ["universal.rules", "c_like.rules", "c.rules"]
# Each suite's seconds, as a test of ctest; what hangs is noticed, too.
STAGES = [("api", ["-L", "^api$"], 120), ("fault", ["-L", "^fault$"], 600), ("model", ["-L", "^model$"], 300),
          ("pairs", ["-R", "^pairs_[0-9]+$"], 600)]


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout


def functions(lines):
    """Ranges of lines, from 1, each of a function and its head: bodies begin and end in the first column."""
    found, begin = [], None
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            begin = number
        elif line.startswith("}") and begin is not None:
            found.append((begin, number))
            begin = None
    return found


def changed_lines(base):
    """File: the numbers of its lines that the working tree has and the base has not."""
    changed = {}
    for line in git("diff", "-U0", base, "--", "src").splitlines():
        if line.startswith("+++ "):
            name = line[6:]
        match = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
        if match and name.endswith(".c"):
            first, count = int(match[1]), int(match[2] or 1)
            changed.setdefault(name, set()).update(range(first, first + max(count, 1)))
    return changed


def targets(options):
    """File: the lines in which it is mutated, all in functions."""
    chosen = {}
    if options.paths:
        for path in options.paths:
            path = pathlib.Path(path).resolve()
            for file in sorted(path.rglob("*.c")) if path.is_dir() else [path]:
                chosen[str(file.relative_to(ROOT))] = None
    else:
        chosen = changed_lines(options.base)
    for name, lines in chosen.items():
        text = (ROOT / name).read_text().splitlines()
        inside = set()
        for begin, end in functions(text):
            if lines is None or any(begin <= line <= end for line in lines):
                inside.update(range(begin + 1, end))
        chosen[name] = inside
    return chosen


def is_code(line):
    text = line.strip()
    return text and not text.startswith(("/*", "*", "//", "#")) and not text.endswith("*/")


def mutants_of(name, lines):
    """(number of the line, the lines that are there instead: one, or two that change places)."""
    from universalmutator import mutator

    source = (ROOT / name).read_text().splitlines(True)
    with contextlib.redirect_stdout(io.StringIO()):
        made = mutator.mutants_regexp(source, ruleFiles=RULES, ignorePatterns=[])
    found = {}
    for number, mutated, *_ in made:
        mutated = mutated.rstrip("\n")
        if number in lines and is_code(source[number - 1]) and mutated != source[number - 1].rstrip("\n"):
            found[number, mutated] = (number, [mutated])
    for number in sorted(lines):
        pair = [line.rstrip("\n") for line in source[number - 1:number + 1]]
        if number + 1 in lines and all(line.strip().endswith(";") for line in pair) and pair[0] != pair[1]:
            found[number, pair[1] + pair[0]] = (number, pair[::-1])
        if source[number - 1].strip().endswith(";") and "return" not in source[number - 1]:
            indent = re.match(r"\s*", source[number - 1])[0]
            found[number, "return"] = (number, [f"{indent}return;"])
    return [found[key] for key in sorted(found)]


class Mutant:
    def __init__(self, name, number, lines):
        self.file, self.number, self.lines = name, number, lines
        text = (ROOT / name).read_text().splitlines()
        self.original = text[number - 1:number - 1 + len(lines)]
        key = json.dumps([name, number, self.original, lines])
        self.id = hashlib.sha256(key.encode()).hexdigest()[:16]

    def text(self):
        lines = (ROOT / self.file).read_text().splitlines(True)
        lines[self.number - 1:self.number - 1 + len(self.lines)] = [line + "\n" for line in self.lines]
        return "".join(lines)

    def difference(self):
        return "\n".join([f"{self.file}:{self.number}"] + [f"-{line}" for line in self.original] +
                         [f"+{line}" for line in self.lines])


def excuses():
    """(file, original, mutated): why nothing can see it."""
    found = {}
    if EXCUSES.exists():
        for line in EXCUSES.read_text().splitlines():
            if line and not line.startswith("#"):
                file, original, mutated, why = [field.strip() for field in line.split(" | ")]
                found[file, original, mutated] = why
    return found


def excuse_of(mutant, known):
    squeeze = lambda lines: " ".join(" ".join(lines).split())
    return known.get((mutant.file, squeeze(mutant.original), squeeze(mutant.lines)))


class Builder:
    """A copy of the tree and its build, for one thread."""

    def __init__(self, folder):
        self.source, self.build = folder / "source", folder / "build"
        self.baseline = {}

    def run(self, command, seconds=1800):
        return subprocess.run(command, cwd=self.build, capture_output=True, text=True, timeout=seconds)

    def prepare(self):
        self.source.mkdir(parents=True, exist_ok=True)
        self.build.mkdir(parents=True, exist_ok=True)
        names = git("ls-files", "-co", "--exclude-standard").splitlines()
        for name in names:
            here, there = ROOT / name, self.source / name
            if here.is_file() and (not there.exists() or here.read_bytes() != there.read_bytes()):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(here, there)
                there.touch()
        done = self.run(["cmake", "-S", str(self.source), "-B", ".", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                         "-DTARN_DEBUG_CHECKS=ON", "-DTARN_SAMPLES=OFF", "-DTARN_BENCH=OFF"])
        done = done if done.returncode else self.run(["ninja", "-j1"])
        if done.returncode:
            sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
        self.outputs = [line.split(":")[0] for line in self.run(["ninja", "-t", "targets", "all"]).stdout.splitlines()]

    def code(self, name):
        """The object's code and data, without what is for debuggers; None: it does not compile."""
        suffix = name.removeprefix("src/") + ".o"
        objects = [o for o in self.outputs if o.endswith("/" + suffix)]
        if self.run(["ninja", "-j1", *objects]).returncode:
            return None
        stripped = self.build / "stripped.o"
        code = b""
        for item in objects:
            subprocess.run(["strip", "-g", "-o", str(stripped), str(self.build / item)], check=True)
            code += stripped.read_bytes()
        return code

    def judge(self, mutant):
        if mutant.file not in self.baseline:
            self.baseline[mutant.file] = self.code(mutant.file)
        path = self.source / mutant.file
        kept = path.read_text()
        path.write_text(mutant.text())
        try:
            code = self.code(mutant.file)
            if code is None:
                return "does not compile", ""
            if code == self.baseline[mutant.file]:
                return "equal", ""
            return self.test(mutant)
        finally:
            path.write_text(kept)

    def test(self, mutant):
        unit = f"unit_{pathlib.Path(mutant.file).stem}"
        stages = [("unit", ["-R", f"^{unit}(_|$)"], 60)] + STAGES
        units = [f"bin/{o.split('/')[-1]}" for o in self.outputs if re.fullmatch(rf"bin/{unit}(_\w+)?", o)]
        for name, which, seconds in stages:
            if name == "unit" and not units:
                continue
            built = self.run(["ninja", "-j1", *(units if name == "unit" else [])])
            if built.returncode:
                return "does not compile", ""
            done = self.run(["ctest", "-j1", "--stop-on-failure", "--timeout", str(seconds), *which], 7200)
            if done.returncode:
                failed = re.findall(r"- (\S+) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|Child aborted|ILLEGAL|Bus error|Exit code)",
                                    done.stdout)
                return "caught", failed[0] if failed else name
        return "survives", ""


def work(builder, queue, lock, results):
    import time

    while True:
        with lock:
            if not queue:
                return
            mutant = queue.pop(0)
        began = time.time()
        try:
            verdict, by = builder.judge(mutant)
        except subprocess.TimeoutExpired:
            verdict, by = "caught", "it hangs"
        line = {"id": mutant.id, "file": mutant.file, "line": mutant.number, "original": mutant.original,
                "mutated": mutant.lines, "verdict": verdict, "by": by, "seconds": round(time.time() - began, 1)}
        with lock:
            results[mutant.id] = line
            with (options.out / "results.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{verdict:17} {mutant.file}:{mutant.number} {by} ({line['seconds']} s)", flush=True)


def sample():
    everything = [Mutant(name, number, lines) for name, inside in sorted(targets(options).items())
                  for number, lines in mutants_of(name, inside)]
    random.Random(options.seed).shuffle(everything)
    return everything


def main():
    everything = sample()
    options.out.mkdir(parents=True, exist_ok=True)
    results, path = {}, options.out / "results.jsonl"
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # the last one, of a run that was interrupted
                results[json.loads(line)["id"]] = json.loads(line)
    counts = {"does not compile": 0, "equal": 0}
    lock, threads, known = threading.Lock(), [], excuses()
    builders = [Builder(options.out / f"job{i}") for i in range(options.jobs)]
    if not options.list:
        for builder in builders:
            builder.prepare()
    chosen, at = [], 0
    # As many as are wanted count; those that do not are found when they are built, and others taken instead.
    while True:
        valid = [m for m in chosen if results.get(m.id, {}).get("verdict") not in counts]
        if len(valid) >= options.sample or at == len(everything):
            queue = [m for m in valid if m.id not in results]
            if not queue or options.list:
                break
        else:
            more = everything[at:at + options.sample - len(valid)]
            at += len(more)
            chosen += more
            queue = [m for m in more if m.id not in results]
        if options.list:
            continue
        threads = [threading.Thread(target=work, args=(b, queue, lock, results)) for b in builders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    judged = [m for m in chosen if results.get(m.id, {}).get("verdict") in ("caught", "survives")]
    survivors = [m for m in judged if results[m.id]["verdict"] == "survives"]
    bare = [m for m in survivors if excuse_of(m, known) is None]
    for mutant in bare:
        print(mutant.difference())
    print(f"{len(everything)} mutants; {len(judged)} judged, {len(survivors)} survive, {len(bare)} without a reason")
    return 1 if bare else 0


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("paths", nargs="*")
parser.add_argument("--base", default="origin/main")
parser.add_argument("--sample", type=int, default=100)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--jobs", type=int, default=1)
parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/mutate")
parser.add_argument("--list", action="store_true", help="what results there are, and nothing is built")
options = parser.parse_args()
options.out = options.out.resolve()
if __name__ == "__main__":
    sys.exit(main())
