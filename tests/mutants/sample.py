#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sample.py [--base REVISION | PATH...] [--sample N] [--seed N] [--jobs N] [--out FOLDER] [--list | --again | --whole]

Mutants that nobody chose: universalmutator's rules for C, and lines that change places, on the functions that differ from
REVISION (origin/main), or on files and folders. A seeded sample of them; each one is built in a copy of the tree, and
judged by its file's suites, then by those that caught others of its file, by api, model, pairs and fault, until one fails:
twice, for a suite may fail on a busy machine. First all of these must pass on the tree as it is. What none sees is judged
by its file's suites under the sanitizers, and compiled with the warnings that are errors. One that does not compile
without them, or whose object code with the release's flags is the original's, does not count. Results are lines of JSON in
FOLDER/results.jsonl, one for each mutant as it is judged: who is interrupted calls the same again. Survivors without a
reason in tests/mutants/survivors.txt are printed with their difference, and the exit status is 1.

--list prints what results there are, and builds nothing; --again judges the survivors again, on the tree as it is now;
--whole judges them by every suite of unit, api, model, pairs, fault and planted, whole.

tools/mutate.sh sets up the Python that this runs in."""
import argparse
import collections
import concurrent.futures
import contextlib
import hashlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXCUSES = ROOT / "tests/mutants/survivors.txt"
RULES = ["universal.rules", "c_like.rules", "c.rules"]
# Suites by their names, and with how much of their work each mutant is judged. Of suites with late destructors the
# others show the same.
STAGES = [("api", r"api_(?!statuses)\w+(?<!_late)", {}), ("model", r"model_(?!soak)\w+(?<!_late)", {"TARN_MODEL_SEEDS": "4"}),
          ("pairs", r"pairs_\d+", {}), ("fault", r"fault_\w+(?<!_late)", {"TARN_FAULT_EVERY": "13"})]
PAIRS = ["--failures", "1", "--seeds", "1", "--places", "1", "--repeats", "1"]
WHOLE = r"(unit|api|model|pairs|fault|planted)_(?!statuses|soak)\w+"
AT_ONCE = 3  # suites mostly wait
LIKELY = 4
PATIENCE = 8  # a suite hangs when it takes so many times what it took on the tree as it is
RELEASE = ["-std=c17", "-O2", "-DNDEBUG", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-Iinclude", "-Isrc",
           '-DTARN_LIBDIR="/lib"', '-DTARN_LIBDIR_FROM_BINDIR="../lib"']
# cmake/TarnCompile.cmake's, errors in the presets that this project is developed with.
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wstrict-prototypes", "-Wmissing-prototypes",
            "-Wvla", "-Werror"]


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


def ends_loop(source, number):
    """Whether the line is the last of a loop's body: a continue behind it changes nothing."""
    indent = lambda line: len(line) - len(line.lstrip())
    if number >= len(source) or source[number].strip() != "}":
        return False
    before = [line for line in source[:number] if line.strip() and indent(line) == indent(source[number])]
    return bool(before and re.match(r"\s*(for|while) \(", before[-1]))


def mutants_of(name, lines):
    """(number of the line, the lines that are there instead: one, or two that change places)."""
    from universalmutator import mutator

    source = (ROOT / name).read_text().splitlines(True)
    with contextlib.redirect_stdout(io.StringIO()):
        made = mutator.mutants_regexp(source, ruleFiles=RULES, ignorePatterns=[])
    found = {}
    for number, mutated, *_ in made:
        mutated = mutated.rstrip("\n")
        if re.search(r"\n\s*continue;$", mutated) and ends_loop(source, number):
            continue
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


def function_at(lines, number):
    """The name of the function that has the line."""
    for begin, end in functions(lines):
        if begin <= number <= end:
            head = begin - 1
            while head > 0 and (lines[head - 1][:1].isspace() or "(" not in lines[head - 1]):
                head -= 1
            return re.search(r"(\w+)\(", lines[head - 1])[1]
    return ""


class Mutant:
    def __init__(self, name, number, lines):
        self.file, self.number, self.lines = name, number, lines
        text = (ROOT / name).read_text().splitlines()
        self.original = text[number - 1:number - 1 + len(lines)]
        self.function = function_at(text, number)
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
    """(file and function, original, mutated): why nothing can see it."""
    found = {}
    if EXCUSES.exists():
        for line in EXCUSES.read_text().splitlines():
            if line and not line.startswith("#"):
                place, original, mutated, why = [field.strip() for field in line.split(" | ")]
                found[place, original, mutated] = why
    return found


def excuse_of(mutant, known):
    squeeze = lambda lines: " ".join(" ".join(lines).split())
    return known.get((f"{mutant.file} {mutant.function}", squeeze(mutant.original), squeeze(mutant.lines)))


def end_session(session):
    """Ends what a suite has started: each test has a process group of its own."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rsplit(")", 1)[1].split()[3]) == session:
                os.kill(int(stat.parent.name), signal.SIGKILL)


class Suite:
    """A test of ctest, with its command and environment."""

    def __init__(self, test, changes):
        properties = {p["name"]: p["value"] for p in test["properties"]}
        self.name, self.command = test["name"], list(test["command"])
        self.folder = properties.get("WORKING_DIRECTORY")
        self.environment = dict(item.split("=", 1) for item in properties.get("ENVIRONMENT", []))
        self.environment.update(changes)
        if self.name.startswith("pairs_"):
            self.command += [] if options.whole else PAIRS
        else:
            self.environment.setdefault("CK_TIMEOUT_MULTIPLIER", "3")  # the machine may be busy
        self.program = "bin/" + pathlib.Path(self.command[0]).name

    def run(self, seconds, stop=None):
        """What failed; "": nothing; None: it was stopped."""
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            process = subprocess.Popen(self.command, cwd=self.folder, env={**os.environ, **self.environment},
                                       stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            until = time.monotonic() + seconds
            while process.poll() is None:
                is_late = time.monotonic() >= until
                if is_late or (stop and stop.is_set()):
                    end_session(process.pid)
                    process.wait()
                    return "hangs" if is_late else None
                time.sleep(0.02)
            if process.returncode == 0:
                return ""
            said.seek(0)
            text = said.read()
        cases = re.findall(r":[FE]:[^:]*:(\w+):", text) + re.findall(r"FAILED: ([^:]+):", text)
        return cases[0] if cases else f"status {process.returncode}"


class Builder:
    """A copy of the tree and its build, for one thread."""

    def __init__(self, folder):
        self.source, self.build = folder / "source", folder / "build"
        self.folder, self.released = folder, {}
        self.catches = collections.defaultdict(collections.Counter)

    def run(self, command, seconds=1800):
        return subprocess.run(command, cwd=self.build, capture_output=True, text=True, timeout=seconds)

    def copy(self):
        self.source.mkdir(parents=True, exist_ok=True)
        self.build.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        for name in git("ls-files", "-co", "--exclude-standard").splitlines():
            here, there = ROOT / name, self.source / name
            if not here.is_file():
                continue
            if not name.startswith("tests/mutants/"):
                digest.update(name.encode() + here.read_bytes())
            if not there.exists() or here.read_bytes() != there.read_bytes():
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(here, there)
                there.touch()
        return digest.hexdigest()

    def prepare(self):
        digest = self.copy()
        done = self.run(["cmake", "-S", str(self.source), "-B", ".", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                         "-DTARN_DEBUG_CHECKS=ON", "-DTARN_SAMPLES=OFF", "-DTARN_BENCH=OFF",
                         "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON"])
        done = done if done.returncode else self.run(["ninja", f"-j{options.threads}"], 7200)
        if done.returncode:
            sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
        tests = json.loads(self.run(["ctest", "--show-only=json-v1"]).stdout)["tests"]
        self.tests = {test["name"]: test for test in tests}
        self.measure(digest)

    def suites(self, pattern, changes=None):
        return [Suite(test, changes or {}) for name, test in sorted(self.tests.items()) if re.fullmatch(pattern, name)]

    def measure(self, digest):
        """Each suite's seconds on the tree as it is, where it must pass."""
        path = self.folder / "baseline.json"
        kept = json.loads(path.read_text()) if path.exists() else {}
        self.seconds = kept.get("seconds", {}) if kept.get("digest") == [digest, options.whole] else {}
        wanted = self.suites(WHOLE) if options.whole else self.suites(r"unit_\w+")
        for _, pattern, changes in STAGES if not options.whole else []:
            wanted += self.suites(pattern, changes)

        def take(suite):
            for _ in range(2):
                began = time.monotonic()
                failed = suite.run(1200)
                if not failed:
                    self.seconds[suite.name] = time.monotonic() - began
                    print(f"{suite.name} passes, {self.seconds[suite.name]:.1f} s", flush=True)
                    return None
            return f"{suite.name} fails on the tree as it is: {failed}"

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            failures = list(filter(None, pool.map(take, [s for s in wanted if s.name not in self.seconds])))
        path.write_text(json.dumps({"digest": [digest, options.whole], "seconds": self.seconds}))
        if failures:
            sys.exit("\n".join(failures))
        print(f"{len(wanted)} suites pass on the tree as it is, in {sum(self.seconds.values()):.0f} s of theirs", flush=True)

    def release(self, name):
        """The object's code and data as they are installed; None: it does not compile."""
        object_file = self.folder / "release.o"
        done = subprocess.run(["cc", *RELEASE, "-w", "-c", name, "-o", str(object_file)], cwd=self.source, capture_output=True)
        return object_file.read_bytes() if done.returncode == 0 else None

    def warning(self, name):
        """The warning that the compiler has for the file as it is now; "": none."""
        done = subprocess.run(["cc", *RELEASE, "-DTARN_DEBUG_CHECKS=1", *WARNINGS, "-c", name, "-o",
                               "/dev/null"], cwd=self.source, capture_output=True, text=True, errors="replace")
        named = re.search(r"\[-Werror=([\w-]+)", done.stderr)
        return "" if done.returncode == 0 else named[1] if named else "an error"

    def judge(self, mutant):
        if mutant.file not in self.released:
            self.released[mutant.file] = self.release(mutant.file)
        path = self.source / mutant.file
        kept = path.read_text()
        path.write_text(mutant.text())
        try:
            code = self.release(mutant.file)
            if code is None:
                return "does not compile", ""
            if code == self.released[mutant.file]:
                return "equal", ""
            verdict = self.test(mutant)
            if verdict[0] != "survives":
                return verdict
            path.write_text(kept)
            if self.sanitized(mutant):  # a suite that fails on the tree as it is says nothing
                return verdict
            path.write_text(mutant.text())
            failed = self.sanitized(mutant)
            return ("caught", "sanitizers " + failed) if failed else verdict
        finally:
            path.write_text(kept)

    def sanitized(self, mutant):
        """Which of its file's suites fail under the sanitizers of addresses and of undefined behaviour; "": none."""
        folder = self.folder / "sanitized"
        names = [suite.name for suite in self.suites(rf"unit_{pathlib.Path(mutant.file).stem}(_\w+)?")]
        if not names:
            return ""
        if not (folder / "build.ninja").exists():
            self.run(["cmake", "-S", str(self.source), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                      "-DTARN_DEBUG_CHECKS=ON", "-DTARN_SANITIZE=address,undefined", "-DTARN_SAMPLES=OFF",
                      "-DTARN_BENCH=OFF"])
        self.run(["ninja", "-C", str(folder), f"-j{options.threads}", *["bin/" + name for name in names]], 7200)
        done = self.run(["ctest", "--test-dir", str(folder), "-R", "^(" + "|".join(names) + ")$", "--timeout", "300"])
        return " ".join(re.findall(r"(unit_\w+) \((?:Failed|Timeout|SEGFAULT|ILLEGAL|Subprocess)", done.stdout))

    def caught_by(self, suites):
        """The name of a suite that fails, and what in it; None: all pass."""
        programs = sorted({suite.program for suite in suites if not suite.name.startswith(("api_", "model_"))})
        # Programs with the shared library are not linked again; those of unit have none.
        shared = [] if all(suite.name.startswith("unit_") for suite in suites) else ["lib/libtarn.so"]
        wanted = [] if options.whole else shared + programs
        built = self.run(["ninja", f"-j{options.threads}", *wanted], 7200)
        if built.returncode:
            return "the build", "does not compile"
        stop, found = threading.Event(), []

        def run(suite):
            if stop.is_set():
                return
            seconds = max(20, PATIENCE * self.seconds[suite.name])
            failed = suite.run(seconds, stop) and suite.run(2 * seconds, stop)
            if failed:
                found.append((suite.name, failed))
                stop.set()

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(run, suites))
        return found[0] if found else None

    def stages(self, mutant):
        stem = pathlib.Path(mutant.file).stem
        if options.whole:
            yield self.suites(WHOLE)
            return
        yield self.suites(rf"unit_{stem}(_\w+)?")
        known = self.catches[mutant.file] or self.catches[str(pathlib.Path(mutant.file).parent)]
        likely = [name for name, _ in known.most_common(LIKELY)]
        yield self.suites("|".join(likely) or "nothing")
        for _, pattern, changes in STAGES:
            yield [suite for suite in self.suites(pattern, changes) if suite.name not in likely]

    def test(self, mutant):
        for suites in self.stages(mutant):
            found = self.caught_by(suites) if suites else None
            if found == ("the build", "does not compile"):
                return "does not compile", ""
            if found:
                if found[0].startswith("api_"):
                    self.catches[mutant.file][found[0]] += 1
                    self.catches[str(pathlib.Path(mutant.file).parent)][found[0]] += 1
                return "caught", " ".join(found)
        warning = self.warning(mutant.file)
        return ("caught", "warnings " + warning) if warning else ("survives", "")


def work(builder, queue, lock, results):
    while True:
        with lock:
            if not queue:
                return
            mutant = queue.pop(0)
        began = time.time()
        verdict, by = builder.judge(mutant)
        line = {"id": mutant.id, "file": mutant.file, "line": mutant.number, "original": mutant.original,
                "mutated": mutant.lines, "verdict": verdict, "by": by, "seconds": round(time.time() - began, 1),
                "whole": options.whole}
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
    if options.again or options.whole:
        for line in [line for line in results.values() if line["verdict"] == "survives"]:
            if excuse_of(Mutant(line["file"], line["line"], line["mutated"]), known) is None:
                del results[line["id"]]
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
parser.add_argument("--threads", type=int, default=2, help="of each build")
parser.add_argument("--again", action="store_true", help="survivors once more")
parser.add_argument("--whole", action="store_true", help="survivors once more, by every suite, whole")
parser.add_argument("--list", action="store_true", help="what results there are, and nothing is built")
options = parser.parse_args()
options.out = options.out.resolve()
if __name__ == "__main__":
    sys.exit(main())
