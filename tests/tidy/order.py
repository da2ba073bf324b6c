#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""order.py [--build DIR] [--list] [--without FOLDER] ROOT [CC...] -- proves that nothing in src reaches upwards.

A unit is X.c with X.h, or one of them alone. The order of folders, and of the units in each, is
that of TARN_SOURCES in src/CMakeLists.txt, lowest first. A unit reaches what stands below it; an
edge upwards is a violation, between folders and between units of one folder.

  includes  in quotes and in brackets alike
  uses      a function called or its address taken, and data. Each source is compiled without
            inlining, and the relocations of each function are read. A function in a header counts
            for the unit of that header, whoever includes it, and so does a macro
  names     a struct that a unit above defines: only its pointer, in a slot of order/slots.txt. Its
            definition is out of reach, since the include would go up
  pointers  a call through a pointer may go anywhere; order/pointers.txt lists whom each reaches

In the simulator (TARN_SIM_SOURCES) folders have an order, units of one folder have none. In bench
and in command no circle of units is allowed. --without command leaves that folder out, where its
libraries are not.

order/apart.txt names folders that use nothing of certain folders below.

order/exceptions.txt names edges upwards that still stand, each with its reason. An entry of a list
that no longer occurs is a violation, so exceptions only get fewer. --list prints what the lists
would have to name.

What is compiled is the build with checks and test hooks: lines that only others have go unseen.
DIR is the build, for its generated headers."""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PLAIN = {**os.environ, "LC_ALL": "C"}
APART = ("bench", "command")  # folders of programs
LISTS = "tests/tidy/order/"
DEFINES = ["-D_GNU_SOURCE", '-DTARN_COMMAND_VERSION=""', "-DTARN_TESTING=1", "-DTARN_DEBUG_CHECKS=1", '-DTARN_LIBDIR=""',
           '-DTARN_LIBDIR_FROM_BINDIR=""']
FLAGS = ["-std=c17", "-w", "-O0", "-g", "-fPIC", "-fno-inline", "-fkeep-inline-functions",
         "-ffunction-sections", "-fdata-sections"]
# What a section is called before the name of its function or object.
SECTION = re.compile(r"^\.(text\.unlikely|text\.startup|text\.exit|text|data\.rel\.ro\.local|"
                     r"data\.rel\.ro|data\.rel\.local|data\.rel|data|rodata|bss|tdata|tbss)\.")
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*("[^"]+"|<[^>]+>)', re.M)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.M)
# Declares a pointer to a function, an array of them, or the type of one.
POINTER = re.compile(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*(?:\[[^\]]*\]\s*)*\)\s*\(|"
                     r"\btypedef\b[^;{}()]*?\b(?!_Atomic\b)(\w+)\s*\((?!\s*\*)")

# A function of the program's: its type stands in a public header, and the library calls through it.
PUBLIC_POINTER = re.compile(r"\btypedef\b[^;{}]*?\(\s*\*\s*(\w+)\s*\)\s*\(")

Use = collections.namedtuple("Use", "file by name")  # by: the function that uses
Include = collections.namedtuple("Include", "file line given")
Naming = collections.namedtuple("Naming", "file line tag slot")  # slot: None where it is no pointer


def unit_of(file):
    name = os.path.splitext(file)[0]
    return name[len("src/"):] if name.startswith("src/") else name


def folder_of(unit):
    return os.path.dirname(unit)


def world_of(file):
    """What is linked into one program or library."""
    top = file.split("/", 1)[0]
    return top if top in APART else "sim" if file.startswith("src/sim/") else "src"


def strip(text, strings):
    """The text without comments and, unless strings is set, without what is in quotes."""
    def blank(match):
        found = match.group(0)
        if found.startswith("/"):
            return "\n" * found.count("\n") or " "
        return found if strings else found[0] * 2
    return TOKEN.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Tree:
    """The files of a tree, the order of its units, and what each has of the others."""

    def __init__(self, root, without=()):
        self.root = root
        self.found = []  # violations
        self.text = {}
        for top in (top for top in ("src", *APART, "include") if top not in without):
            for path in sorted((root / top).rglob("*.[ch]")):
                self.text[path.relative_to(root).as_posix()] = path.read_text()
        self.bare = {file: strip(text, False) for file, text in self.text.items()}
        self.includes = collections.defaultdict(list)  # (unit, unit) -> [Include]
        self.uses = collections.defaultdict(list)  # (unit, unit) -> [Use]
        self.names = collections.defaultdict(list)  # (unit, unit) -> [Naming]
        self.read_order()

    def report(self, sentence):
        if sentence not in self.found:
            self.found.append(sentence)

    def step(self, low, high):
        """Where one unit reaches another, and how to say it."""
        for item in self.uses.get((low, high), []):
            return item.file, f"{low} uses {item.name} of {high}"
        return self.includes[low, high][0].file, f"{low} includes {high}"

    # ---- the order --------------------------------------------------------------------------

    def read_order(self):
        lists = "src/CMakeLists.txt"
        text = re.sub(r"#.*", "", (self.root / lists).read_text())
        self.rank = {}  # of a unit: (rank of its folder, its own)
        self.folders = []
        for name in ("TARN_SOURCES", "TARN_SIM_SOURCES"):
            match = re.search(r"\bset\(\s*" + name + r"\b([^)]*)\)", text)
            if match is None:
                self.report(f"{lists}:1: has no {name}")
                continue
            for file in match.group(1).split():
                self.place(lists, file)
        for file in self.text:
            if not file.startswith("src/") or unit_of(file) in self.rank:
                continue
            unit = unit_of(file)
            if world_of(file) == "sim" and folder_of(unit) in self.folders:
                self.rank[unit] = (self.folders.index(folder_of(unit)), 0)
            else:
                self.report(f"{file}:1: has no place in the order of {lists}; "
                            "a header without a source is listed itself")

    def place(self, lists, file):
        """The next of the order."""
        unit = os.path.splitext(file)[0]
        folder = folder_of(unit)
        if "src/" + file not in self.text:
            self.report(f"{lists}:1: lists {file}, which does not exist")
        elif unit in self.rank:
            self.report(f"{lists}:1: lists {unit} twice")
            return
        if folder not in self.folders:
            self.folders.append(folder)
        elif folder != self.folders[-1]:
            self.report(f"{lists}:1: lists {file} apart from the rest of {folder}")
        self.rank[unit] = (self.folders.index(folder),
                           0 if world_of("src/" + file) == "sim" else len(self.rank))

    def is_upward(self, edge):
        return all(unit in self.rank for unit in edge) and self.rank[edge[1]] > self.rank[edge[0]]

    def above(self, low, high):
        """How to say that one is above the other."""
        if folder_of(low) != folder_of(high):
            return f"folder {folder_of(high)} is above {folder_of(low)}"
        return f"unit {high} is above {low}"

    # ---- what the text shows ----------------------------------------------------------------

    def read_includes(self):
        for file, text in self.text.items():
            if file.startswith("include/"):
                continue
            stripped = strip(text, True)
            for match in INCLUDE.finditer(stripped):
                given = match.group(1)
                folders = (os.path.dirname(file), "src", "bench")
                places = [os.path.normpath(f"{folder}/{given[1:-1]}") for folder in folders]
                target = next((place for place in places if place in self.text), None)
                edge = (unit_of(file), unit_of(target)) if target else None
                if edge and edge[0] != edge[1]:
                    line = line_of(stripped, match.start(1))
                    self.includes[edge].append(Include(file, line, given))

    def read_definitions(self):
        """Where structs and unions are defined, by world and tag; other names of them."""
        defined = collections.defaultdict(list)
        other_names = {}
        for file, text in self.bare.items():
            for match in re.finditer(r"\b(?:struct|union)\s+(\w+)\s*\{", text):
                places = defined[world_of(file), match.group(1)]
                places.append(file)
                if len(places) > 1 and any(place.endswith(".h") for place in places):
                    self.report(f"{file}:{line_of(text, match.start())}: defines struct "
                                f"{match.group(1)}, as {places[0]} does")
            for match in re.finditer(r"\btypedef\s+(?:struct|union)\s+(\w+)\s+(\w+)\s*;", text):
                other_names[match.group(2)] = match.group(1)
        return defined, other_names

    def read_names(self):
        defined, other_names = self.read_definitions()
        naming = re.compile(
            r"\b(?:(?:struct|union)\s+(\w+)|(" + "|".join(sorted(other_names) + ["$^"]) + r"))\b"
            r"(?:\s*const\b)?\s*(\**)(?:\s*(?:const|restrict|_Atomic)\b|[\s*])*(\w*)\s*(\W)")
        for file, text in self.bare.items():
            if file.startswith("include/"):
                continue
            for match in naming.finditer(text):
                tag = match.group(1) or other_names[match.group(2)]
                places = defined.get((world_of(file), tag), [])
                headers = [place for place in places if place.endswith(".h")]
                if file in places or len(headers or places) != 1:
                    continue
                place = (headers or places)[0]
                line = line_of(text, match.start())
                edge = (unit_of(file), unit_of(place))
                declared = match.group(1) and not match.group(4) and match.group(5) == ";"
                if edge[0] == edge[1] or declared:
                    continue
                slot = (match.group(4) or "*") if match.group(3) else None
                self.names[edge].append(Naming(file, line, tag, slot))

    # ---- what the compiler shows ------------------------------------------------------------

    def read_uses(self, compiler, build):
        sources = [file for file in self.text if file.endswith(".c")]
        self.compiled = 0
        with tempfile.TemporaryDirectory() as scratch:
            objects = {f"{scratch}/{number}.o": file for number, file in enumerate(sources)}
            command = compiler + FLAGS + DEFINES + [
                f"-fdebug-prefix-map={self.root}=.", "-Isrc", "-Iinclude", "-Ibench",
                f"-I{build}/bench", "-c"]

            def compile_one(item):
                made, file = item
                return item, subprocess.run(command + [file, "-o", made], cwd=self.root, env=PLAIN,
                                            capture_output=True, text=True, check=False)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
                for (made, file), result in workers.map(compile_one, objects.items()):
                    if result.returncode != 0:
                        said = [line for line in result.stderr.splitlines() if "error" in line]
                        self.report(f"{file}:1: does not compile: {(said or compiler)[0]}")
                        del objects[made]
            if objects:
                self.read_symbols(objects)
                self.read_relocations(objects)
                self.read_macros()
            self.compiled = len(objects)

    def read_symbols(self, objects):
        """Where each symbol of an object stands: local ones, and those that others see."""
        self.local = {name: {} for name in objects}
        self.seen = {}
        line = re.compile(r"^(.*\.o):\S*\s+([A-Za-z]) (\S+)(?:\t(.*):\d+)?$")
        for text in self.run("nm", "-l", "-A", *objects):
            match = line.match(text)
            if match is None or match.group(2) in "Uw":
                continue
            made, kind, symbol, place = match.groups()
            file = os.path.relpath(os.path.join(self.root, place), self.root) if place else None
            if place is None and kind in "tT":
                self.report(f"{objects[made]}:1: {symbol} stands in no file that is known")
            if file not in self.text:
                file = objects[made]
            self.local[made][symbol] = file
            if kind.isupper():
                self.seen[world_of(objects[made]), symbol] = file

    def read_relocations(self, objects):
        """Each names what a function or an object refers to."""
        heads = 0
        for text in self.run("objdump", "-r", *objects):
            match = re.match(r"^(.*\.o):\s+file format ", text)
            if match:
                made = match.group(1)
                file = objects[made]
                heads += 1
                continue
            match = re.match(r"^RELOCATION RECORDS FOR \[(.*)\]:", text)
            if match:
                section = SECTION.sub("", match.group(1))
                place = self.local[made].get(section, file)
                skip = section.startswith((".debug", ".eh_frame"))
                continue
            word = text.split()
            if len(word) != 3 or word[0] == "OFFSET" or skip:
                continue
            symbol = SECTION.sub("", re.sub(r"[+-]0x[0-9a-f]+$", "", word[2]))
            target = self.local[made].get(symbol) or self.seen.get((world_of(file), symbol))
            if target is None:
                continue
            edge = (unit_of(place), unit_of(target))
            if edge[0] != edge[1]:
                self.uses[edge].append(Use(place, section, symbol))
        if heads != len(objects):
            self.report(f"order: objdump has shown {heads} of {len(objects)} objects")

    def read_macros(self):
        """What a macro names counts for where the macro stands, not for where it is written out."""
        inline = {(world_of(file), symbol): file for symbols in self.local.values()
                  for symbol, file in symbols.items() if file.endswith(".h")}
        places = {**inline, **self.seen}
        for file, text in self.bare.items():
            for match in DEFINE.finditer(text):
                for name in re.findall(r"\w+", match.group(2)):
                    target = places.get((world_of(file), name), file)
                    edge = (unit_of(file), unit_of(target))
                    if edge[0] != edge[1]:
                        self.uses[edge].append(Use(file, match.group(1), name))

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=PLAIN)
        return done.stdout.splitlines()


class List:
    """A list by hand. Each line has words, a colon and a reason; each must occur."""

    def __init__(self, tree, name):
        self.tree = tree
        self.path = LISTS + name
        self.entries = {}  # words -> line
        self.met = set()
        path = tree.root / self.path
        for number, text in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
            if not text or text.startswith("#"):
                continue
            words, _, reason = text.partition(":")
            if not reason.strip():
                tree.report(f"{self.path}:{number}: gives no reason")
            *head, last = words.split()
            for item in last.split(","):
                self.entries[(*head, item)] = number

    def allows(self, *words):
        self.met.add(words)
        return words in self.entries

    def judge(self):
        for words, number in self.entries.items():
            if words not in self.met:
                self.tree.report(f"{self.path}:{number}: names what no longer is: " +
                                 " ".join(words))


def judge_edges(tree, listed):
    """Every edge upwards is a violation or in a list. Returns how many exceptions there are."""
    exceptions = List(tree, "exceptions.txt")
    slots = List(tree, "slots.txt")
    wanted = collections.defaultdict(set)
    upward = sorted(edge for edges in (tree.includes, tree.uses, tree.names) for edge in edges
                    if tree.is_upward(edge))
    for low, high in dict.fromkeys(upward):
        above = tree.above(low, high)
        for item in tree.includes.get((low, high), []):
            wanted[low, "includes"].add(high)
            if not exceptions.allows(low, "includes", high):
                tree.report(f"{item.file}:{item.line}: includes {item.given}, but {above}")
        for item in tree.uses.get((low, high), []):
            wanted[low, "uses", high].add(item.name)
            if not exceptions.allows(low, "uses", high, item.name):
                tree.report(f"{item.file}:1: {item.by} uses {item.name}, but {above}")
        shown = {item.file for item in tree.includes.get((low, high), [])
                 if (low, "includes", high) in exceptions.entries}
        for item in tree.names.get((low, high), []):
            if item.file in shown or os.path.splitext(item.file)[0] + ".h" in shown:
                continue  # all structs of the unit above are within reach
            if item.slot is None:
                wanted[low, "names", high].add(item.tag)
                if not exceptions.allows(low, "names", high, item.tag):
                    tree.report(f"{item.file}:{item.line}: names struct {item.tag} other than by a "
                                f"pointer, but {above}")
                continue
            wanted["slot", item.file, item.tag].add(item.slot)
            if not slots.allows(item.file, item.tag, item.slot):
                tree.report(f"{item.file}:{item.line}: names struct {item.tag} in {item.slot}, "
                            f"which {slots.path} does not list, but {above}")
    exceptions.judge()
    slots.judge()
    if listed:
        for words, names in sorted(wanted.items()):
            print(" ".join(words), ",".join(sorted(names)) + ": ")
    return len(exceptions.entries)


def judge_apart(tree):
    """Folders that use nothing of another, though it stands below. Returns how many pairs are looked at."""
    apart = List(tree, "apart.txt")
    for by, of in apart.entries:
        if by not in tree.folders or of not in tree.folders:
            tree.report(f"{apart.path}:{apart.entries[by, of]}: names a folder that is not")
    told = set()
    for (low, high), uses in sorted(tree.uses.items()):
        pair = folder_of(low), folder_of(high)
        if pair in apart.entries and (low, pair[1]) not in told:
            told.add((low, pair[1]))
            tree.report(f"{uses[0].file}:1: {uses[0].by} uses {uses[0].name}, but {pair[0]} keeps "
                        f"apart from {pair[1]}")
    return len(apart.entries)


def judge_pointers(tree):
    """Declarations of pointers to functions, and uses of the public types of such, of the library itself."""
    pointers = List(tree, "pointers.txt")
    public = {name for file, text in tree.bare.items() if file.startswith("include/")
              for name in PUBLIC_POINTER.findall(text)}
    of_public = re.compile(r"\b(" + "|".join(sorted(public) or ["(?!)"]) + r")\b()")
    for file, text in tree.bare.items():
        if world_of(file) != "src" or not file.startswith("src/") or file.startswith("src/abi/"):
            continue
        for match in [*POINTER.finditer(text), *of_public.finditer(text)]:
            name = match.group(1) or match.group(2)
            if not pointers.allows(file, name):
                tree.report(f"{file}:{line_of(text, match.start())}: calls through {name}, which "
                            f"{pointers.path} does not list")
    pointers.judge()
    return len(pointers.met)


def judge_circles(tree, top):
    """No unit may reach itself. Returns how many units reach another."""
    edges = collections.defaultdict(set)
    for low, high in [*tree.includes, *tree.uses]:
        if low.startswith(top) and high.startswith(top):
            edges[low].add(high)
    told = set()
    count = len(edges)
    for unit in sorted(edges):
        circle = shortest_circle(edges, unit)
        if circle and not told & set(circle):
            steps = [tree.step(*pair) for pair in zip(circle, circle[1:] + circle[:1])]
            tree.report(f"{steps[0][0]}:1: is in a circle: {', '.join(said for _, said in steps)}")
            told |= set(circle)
    return count


def shortest_circle(edges, unit):
    """The units from that one on, the last of which reaches it again; none: it is in no circle."""
    before = {unit: None}
    queue = collections.deque([unit])
    while queue:
        at = queue.popleft()
        if unit in edges[at]:
            circle = []
            while at is not None:
                circle.insert(0, at)
                at = before[at]
            return circle
        for high in sorted(edges[at] - before.keys()):
            before[high] = at
            queue.append(high)
    return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("compiler", nargs="*", default=["cc"])
    given = parser.parse_args()
    tree = Tree(given.root.resolve(), given.without)
    tree.read_includes()
    tree.read_names()
    tree.read_uses(given.compiler, os.path.abspath(given.build))
    exceptions = judge_edges(tree, given.list)
    judge_apart(tree)
    pointers = judge_pointers(tree)
    in_circles = {f"units of {top}": judge_circles(tree, f"{top}/") for top in APART
                  if top not in given.without}
    looked = {"units": len(tree.rank), "objects": tree.compiled,
              "includes": sum(map(len, tree.includes.values())),
              "uses": sum(map(len, tree.uses.values())),
              "names": sum(map(len, tree.names.values())),
              **in_circles, "pointers to functions": pointers}
    for what, count in looked.items():
        if count == 0:
            tree.report(f"order: looked at no {what}")
    print("\n".join(tree.found + [""] if tree.found else []), end="")
    print("order:", ", ".join(f"{count} {what}" for what, count in looked.items()) +
          f"; {exceptions} exceptions, {len(tree.found)} violations")
    return 1 if tree.found else 0


if __name__ == "__main__":
    sys.exit(main())
