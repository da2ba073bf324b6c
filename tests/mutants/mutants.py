# SPDX-License-Identifier: Apache-2.0
"""Breaks one rule at a time, and sees the case that is named for it fail.

    mutants.sh [NAME...]      runs all mutants of the tables, or those of these names
    mutants.sh --check        whether every text is found once, and every case is in the tests
    mutants.sh --mend         writes the tables anew: files of moved functions, order, heads
    pick.sh [COUNT [BASE]]    prints COUNT (20) names, for a run that has no time for all mutants

A run is on a copy of the sources in build/mutants. On the sources as they are each executable must
say that the named cases pass. Then each mutant is put into the copy, its executable is built, and
must say that the case fails. Exit status 0: every mutant was caught by the case named for it.
"""

import os
import re
import shutil
import subprocess
import sys
import zlib

import tables
from tables import ROOT, Wrong

WORK = ROOT / "build" / "mutants"
SOURCE = WORK / "source"
BUILD = WORK / "build"
CASE_SECONDS = 1200  # Check ends a test that hangs; the contract does not
PICKED = 20


def git(*arguments):
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def copy_sources():
    """Copies what git tracks, as it is in the working tree. Only what differs is built again."""
    names = git("ls-files", "-co", "--exclude-standard").splitlines()
    names = {name for name in names if (ROOT / name).is_file()}
    for name in sorted(names):
        here, there = ROOT / name, SOURCE / name
        if there.is_file() and here.read_bytes() == there.read_bytes():
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(here, there)
    for path in list(SOURCE.rglob("*")):
        if path.is_file() and str(path.relative_to(SOURCE)) not in names:
            path.unlink()


def output_of(command, **more):
    """Runs a command. Its stdout has all that it says."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **more)


def configure():
    done = output_of(["cmake", "-S", str(SOURCE), "-B", str(BUILD), "-G", "Ninja",
                      "-DCMAKE_BUILD_TYPE=Debug", "-DTARN_DEBUG_CHECKS=ON", "-DTARN_SAMPLES=OFF",
                      "-DTARN_BENCH=OFF"])
    if done.returncode != 0:
        sys.exit(done.stdout)


def build(executables):
    """Whether they build. What the compiler said of a failure is printed."""
    done = output_of(["cmake", "--build", str(BUILD), "--target", "tarn_sim", *executables])
    if done.returncode != 0:
        print("\n".join(done.stdout.splitlines()[-20:]))
    return done.returncode == 0


def said(executable, case):
    """The lines in which an executable says how a case ended, or None: it did not run."""
    environment = dict(os.environ, TARN_DRIVER=str(BUILD / "lib" / "libtarn_sim.so"))
    command = [str(BUILD / "bin" / executable)]
    if executable == "tarn_contract":
        environment["TARN_SIM_STRICT"] = "0"
        command.append(case)
        pattern = rf"^\w+ {re.escape(case)}: .*"
    else:
        # CK_VERBOSE names every test that ran: "...:P:case:name:0: Passed".
        environment["CK_VERBOSITY"] = "verbose"
        pattern = rf"^.*:[PFE]:[^:]*:{re.escape(case)}:"
    try:
        done = output_of(command, cwd=BUILD, env=environment, timeout=CASE_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    lines = [match.group() for match in re.finditer(pattern, done.stdout, re.MULTILINE)]
    return "\n".join(lines) or None


def passes(executable, lines):
    """Whether the lines say that a case holds."""
    if executable == "tarn_contract":
        return re.search(r"^ok ", lines) is not None
    return re.search(r":[FE]:[^:]*:\w+:$", lines, re.MULTILINE) is None


def judge(mutant, before):
    """The verdict of a mutant. BEFORE: what its case said of the sources as they are."""
    if before is None:
        return "NO SUCH CASE"
    if not passes(mutant.executable, before):
        return "FAILS WITHOUT THE MUTANT"
    try:
        changed = tables.apply(mutant, tables.Sources(ROOT))
    except Wrong as wrong:
        print(wrong)
        return "DOES NOT APPLY"
    try:
        for file, text in changed.items():
            (SOURCE / file).write_text(text)
        if not build([mutant.executable]):
            return "DOES NOT BUILD"
        after = said(mutant.executable, mutant.case)
    finally:
        for file in changed:
            shutil.copy(ROOT / file, SOURCE / file)
    if after is None:
        return "DOES NOT RUN"
    if mutant.executable == "tarn_contract":
        # The case says what it found, and whether it holds; either differs from what it is to be.
        return "SURVIVES" if after == before else "caught"
    return "SURVIVES" if passes(mutant.executable, after) else "caught"


def run(mutants):
    copy_sources()
    configure()
    cases = sorted({(mutant.executable, mutant.case) for mutant in mutants})
    if not build(sorted({executable for executable, _ in cases})):
        return 1
    before = {each: said(*each) for each in cases}
    failures = 0
    for mutant in mutants:
        verdict = judge(mutant, before[mutant.executable, mutant.case])
        failures += verdict != "caught"
        rule, case = mutant.fields["breaks"], mutant.fields["caught"]
        print(f"{verdict:10} {mutant.name}: {rule} [{case}]", flush=True)
    print(f"{len(mutants)} mutants, {failures} not caught")
    return int(failures > 0)


def words_of_tests():
    """Each word of the suites, and the cases of the contract that were recorded."""
    words = set()
    for path in (ROOT / "tests").rglob("*.[ch]"):
        words.update(re.findall(r"\w+", path.read_text()))
    for path in (ROOT / "tests" / "contract" / "recorded" / "h200").rglob("*.txt"):
        # A line that is not indented is a case of the group, or what cases of a matrix call.
        cases = re.findall(r"^\S+", path.read_text(), re.MULTILINE)
        words.update(f"{path.stem}/{case}" for case in cases)
        words.update(f"{path.stem}/{case.partition('.')[0]}" for case in cases)
    return words


def unknown_calls(mutant, sources):
    """Names that a mutant calls, or expands, and that stand nowhere in the sources: a function has got another name."""
    text = "\n".join(replacement.new if isinstance(replacement.new, str) else "\n".join(replacement.new)
                     for replacement in mutant.replacements)
    called = set(re.findall(r"\b([A-Za-z_]\w*)\(", text))
    return sorted(called - sources.words())


def faults_of(mutants, sources, words):
    """What is wrong with mutants, each a sentence."""
    faults = []
    for mutant in mutants:
        faults += [f"{mutant.name}: no source has the name {name}" for name in unknown_calls(mutant, sources)]
        try:
            tables.apply(mutant, sources)
            for replacement, file in tables.moves(mutant, sources):
                faults.append(f"{mutant.name}: the text of {replacement.place} is in {file}; "
                              "mutants.sh --mend writes so")
        except Wrong as wrong:
            faults.append(str(wrong))
        # A case of a matrix has what is called before the first dot, and is recorded below that.
        if mutant.case not in words and mutant.case.partition(".")[0] not in words:
            faults.append(f"{mutant.name}: no test has the name {mutant.case}")
    return faults


def check(mutants):
    sources = tables.Sources(ROOT)
    faults = faults_of(mutants, sources, words_of_tests())
    if not faults:
        for name, text in tables.mended(mutants, sources).items():
            path = tables.HERE / f"{name}.mutants"
            if not path.is_file() or path.read_text() != text:
                faults.append(f"{path.name}: its head, its order, or another layer's mutants; "
                              "mutants.sh --mend writes it")
    for fault in faults:
        print(fault)
    print(f"{len(mutants)} mutants, {len(faults)} faults")
    return int(bool(faults))


def mend(mutants):
    texts = tables.mended(mutants, tables.Sources(ROOT))
    for path in tables.HERE.glob("*.mutants"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        (tables.HERE / f"{name}.mutants").write_text(text)
    return 0


def mutants_at(base):
    """The mutants that a commit's tables had, by their names."""
    found = {}
    try:
        for name in git("ls-tree", "--name-only", base, "tests/mutants/").splitlines():
            if name.endswith(".mutants"):
                table = tables.read_table(name, git("show", f"{base}:{name}"))
                found.update((mutant.name, mutant) for mutant in table)
    except (subprocess.CalledProcessError, Wrong):
        return {}
    return found


def pick(mutants, count, base):
    """Prints names: of mutants that break a file which differs from the base, or differ themselves.

    Others are added, until there are COUNT. The commit decides which, also of too many: a run
    can be repeated, and the next commit has others.
    """
    sources = tables.Sources(ROOT)
    commit = git("rev-parse", "HEAD").strip()
    try:
        changed = set(git("diff", "--name-only", base, "--").splitlines())
    except subprocess.CalledProcessError:
        changed = set(git("ls-files").splitlines())
    known = mutants_at(base)

    def rank(mutant):
        same = mutant.name in known and known[mutant.name].key() == mutant.key()
        touched = not same or any(file in changed for file in tables.apply(mutant, sources))
        return not touched, zlib.crc32(f"{commit} {mutant.name}".encode())

    for mutant in sorted(mutants, key=rank)[:count]:
        print(mutant.name)
    return 0


def main(arguments):
    known = tables.all_of(tables.read_tables())
    if arguments[:1] == ["--pick"] and len(arguments) <= 3:
        count = int(arguments[1]) if len(arguments) > 1 else PICKED
        return pick(known.values(), count, arguments[2] if len(arguments) > 2 else "HEAD~1")
    if arguments == ["--check"]:
        return check(known.values())
    if arguments == ["--mend"]:
        return mend(known.values())
    for name in arguments:
        if name not in known:
            raise Wrong(f"{name}: no mutant has this name; mutants.sh [NAME...], --check or --mend")
    return run([known[name] for name in arguments] or list(known.values()))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Wrong as error:
        sys.exit(str(error))
