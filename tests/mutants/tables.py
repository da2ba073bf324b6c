# SPDX-License-Identifier: Apache-2.0
"""The tables of mutants: how they are read and kept, and where each mutant changes the sources.

A table is a file LAYER.mutants beside this one. HEAD, with which each begins, describes it.

A mutant's text is looked for in the file that its table names, or in the function there. Where it
is not found, it is looked for in all other sources: so a function may move to another file, and
every command goes on. --check tells such a move, for the text may be another one, and --mend has
the table name the new file. Nothing else that moves in a file concerns a table.

A function begins with its definition, in the first column, and ends with the next "}" there.
"""

import collections
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMMAND = "command"  # a folder, and its table
OTHER = "other"  # the table of what is in none of them, and in no folder of src

HEAD = """\
# Mutants: each breaks a rule of this layer, and the case that it names must fail then.
# tests/mutants/mutants.sh NAME... breaks them one after the other, in a copy of the sources.
#
# To add one, copy an entry and change it. Then mutants.sh --mend puts it in order, and
# mutants.sh NAME runs it. Entries are divided by blank lines; a line of # is a comment.
#   mutant:  a name that no other has
#   breaks:  the rule that no longer holds; a line that begins with spaces goes on with it
#   caught:  executable and test, as unit_gpu NAME; of the contract tarn_contract GROUP/NAME
#   in:      file, and the function, where the text stands in the file more than once
#   - text   what goes: it stands there exactly once; a part of a line will do, and lasts longest
#   + text   what comes; without it the lines of - go whole
# Behind "- " and "+ " each character counts. A mutant has as many replacements as it needs: the
# next - begins one in the same place, and an in: goes to another.
"""

FIELDS = ("mutant", "breaks", "caught")


class Wrong(Exception):
    """A table that cannot be read, or a text that is not found once: a sentence."""


class Place:
    """Where a replacement is made: a file, and a function or None."""

    def __init__(self, file, function=None):
        self.file = file
        self.function = function

    def __str__(self):
        return self.file if self.function is None else f"{self.file} {self.function}"


class Replacement:
    def __init__(self, place):
        self.place = place
        self.old = []
        self.new = []

    def key(self):
        return str(self.place), self.old, self.new


class Mutant:
    def __init__(self, lines):
        self.lines = lines  # as they stand in the table, comments before them included
        self.fields = {}
        self.replacements = []

    @property
    def name(self):
        return self.fields["mutant"]

    @property
    def executable(self):
        return self.fields["caught"].split()[0]

    @property
    def case(self):
        return self.fields["caught"].split()[1]

    def key(self):
        """What makes it another mutant when it changes."""
        return self.fields, [replacement.key() for replacement in self.replacements]


def read_replacement_line(mutant, line, where):
    if not mutant.replacements:
        raise Wrong(f"{where}: - and + stand below an in:")
    last = mutant.replacements[-1]
    if line[1:2] not in ("", " "):
        raise Wrong(f"{where}: a space stands after {line[0]}")
    if line[0] == "+":
        if not last.old:
            raise Wrong(f"{where}: + stands below a -")
        last.new.append(line[2:])
        return
    if last.new:
        mutant.replacements.append(Replacement(last.place))
    mutant.replacements[-1].old.append(line[2:])


def read_place(mutant, text, where):
    words = text.split()
    if len(words) not in (1, 2):
        raise Wrong(f"{where}: in: has a file, and a function or none")
    mutant.replacements.append(Replacement(Place(*words)))


def read_line(mutant, line, before, where):
    """Reads one line. Returns the field that a line of spaces after it goes on with, or None."""
    if line.startswith("#"):
        return None
    if line[0] in "-+":
        read_replacement_line(mutant, line, where)
        return None
    if line[0] == " ":
        if before is None:
            raise Wrong(f"{where}: no field goes on here")
        mutant.fields[before] += " " + line.strip()
        return before
    field, colon, text = line.partition(":")
    if not colon or not text.strip():
        raise Wrong(f"{where}: neither a field nor - or +")
    if field == "in":
        read_place(mutant, text, where)
        return None
    if field not in FIELDS or field in mutant.fields:
        raise Wrong(f"{where}: {field}: is no field, or stands twice")
    mutant.fields[field] = text.strip()
    return field


def read_mutant(lines, name, number):
    """Reads the lines of one mutant, the first of which is the number-th of its table."""
    mutant = Mutant(lines)
    before = None
    for offset, line in enumerate(lines):
        before = read_line(mutant, line, before, f"{name}:{number + offset}")
    where = f"{name}:{number}"
    for field in FIELDS:
        if field not in mutant.fields:
            raise Wrong(f"{where}: no {field}:")
    if len(mutant.fields["caught"].split()) != 2:
        raise Wrong(f"{where}: caught: has an executable and a case")
    if not mutant.replacements:
        raise Wrong(f"{where}: no in:")
    for replacement in mutant.replacements:
        if not "".join(replacement.old).strip():
            raise Wrong(f"{where}: no text after - in {replacement.place}")
        if replacement.old == replacement.new:
            raise Wrong(f"{where}: nothing changes in {replacement.place}")
    return mutant


def read_table(name, text):
    """The mutants of a table. Comments alone are its head, and stand nowhere else."""
    mutants = []
    start = None
    lines = text.splitlines()
    for number, line in enumerate(lines + [""]):
        if line.strip() and start is None:
            start = number
        elif not line.strip() and start is not None:
            entry = lines[start:number]
            if not all(each.startswith("#") for each in entry):
                mutants.append(read_mutant(entry, name, start + 1))
            elif start > 0:
                raise Wrong(f"{name}:{start + 1}: a comment stands in the entry of its mutant")
            start = None
    return mutants


def read_tables(folder=HERE):
    """All tables by their names, each a list of mutants."""
    paths = sorted(folder.glob("*.mutants"))
    return {path.stem: read_table(path.name, path.read_text()) for path in paths}


def all_of(tables):
    """All mutants by their names, in the order of names."""
    found = {}
    for mutants in tables.values():
        for mutant in mutants:
            if mutant.name in found:
                raise Wrong(f"{mutant.name}: two mutants have this name")
            found[mutant.name] = mutant
    return dict(sorted(found.items()))


def write_table(mutants):
    mutants = sorted(mutants, key=lambda mutant: mutant.name)
    return "\n".join([HEAD] + ["\n".join(mutant.lines) + "\n" for mutant in mutants])


class Sources:
    """The texts of a tree, read when they are asked for."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.texts = {}
        self.known = None
        self.all_words = None

    def text(self, file):
        """The text of a file, or None where there is none."""
        if file not in self.texts:
            path = self.root / file
            self.texts[file] = path.read_text() if path.is_file() else None
        return self.texts[file]

    def files(self):
        """Where a text that has moved is looked for."""
        if self.known is None:
            paths = [*(self.root / "src").rglob("*.[ch]"), *(self.root / COMMAND).glob("*.[ch]")]
            self.known = sorted(str(path.relative_to(self.root)) for path in paths)
        return self.known

    def words(self):
        """Every name in the sources."""
        if self.all_words is None:
            self.all_words = {word for file in self.files() for word in re.findall(r"\w+", self.text(file))}
        return self.all_words


def span_of(text, function):
    """Where a function begins and ends in a text; None where there is not exactly one."""
    if function is None:
        return 0, len(text)
    pattern = rf"^[A-Za-z_][^\n;(]*\b{re.escape(function)}\([^;{{}}]*\n{{\n.*?^}}$"
    found = list(re.finditer(pattern, text, re.MULTILINE | re.DOTALL))
    return found[0].span() if len(found) == 1 else None


def occurrences(text, old, function):
    """Where the text old begins, in a function or anywhere."""
    span = span_of(text, function) if text is not None else None
    if span is None:
        return []
    found = []
    at = text.find(old, span[0], span[1])
    while at >= 0:
        found.append(at)
        at = text.find(old, at + 1, span[1])
    return found


def find(mutant, replacement, sources):
    """The file in which a replacement is made, and the offset there."""
    place = replacement.place
    old = "\n".join(replacement.old)
    found = [(place.file, at) for at in occurrences(sources.text(place.file), old, place.function)]
    if not found:
        found = [(file, at) for file in sources.files()
                 for at in occurrences(sources.text(file), old, place.function)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise Wrong(f"{mutant.name}: in {place} and all other sources there is no: {old}")
    lines = ", ".join(f"{file}:{sources.text(file)[:at].count(chr(10)) + 1}" for file, at in found)
    raise Wrong(f"{mutant.name}: more than once, in {lines}: {old}")


def whole_lines(mutant, text, begin, end):
    """The bounds of the lines that go whole, their end included."""
    first = text.rfind("\n", 0, begin) + 1
    after = text.find("\n", end)
    after = len(text) if after < 0 else after
    if text[first:begin].strip() or text[end:after].strip():
        raise Wrong(f"{mutant.name}: without + whole lines go; this is a part: {text[begin:end]}")
    return first, min(after + 1, len(text))


def moves(mutant, sources):
    """The replacements whose text is in another file than the table says, each with that file."""
    found = []
    for replacement in mutant.replacements:
        file, _ = find(mutant, replacement, sources)
        if file != replacement.place.file:
            found.append((replacement, file))
    return found


def apply(mutant, sources):
    """The changed texts by their files. All replacements are found in the sources as they are."""
    edits = collections.defaultdict(list)
    for replacement in mutant.replacements:
        file, begin = find(mutant, replacement, sources)
        end = begin + len("\n".join(replacement.old))
        if not replacement.new:
            begin, end = whole_lines(mutant, sources.text(file), begin, end)
        edits[file].append((begin, end, "\n".join(replacement.new)))
    changed = {}
    for file, places in edits.items():
        text = sources.text(file)
        limit = len(text)
        for begin, end, new in sorted(places, reverse=True):
            if end > limit:
                raise Wrong(f"{mutant.name}: two of its texts overlap in {file}")
            text = text[:begin] + new + text[end:]
            limit = begin
        changed[file] = text
    return changed


def table_of(file):
    """The table of a mutant whose first replacement is in this file."""
    parts = pathlib.PurePosixPath(file).parts
    if parts[0] == COMMAND:
        return COMMAND
    return parts[1] if len(parts) > 2 and parts[0] == "src" else OTHER


def follow(mutant, sources):
    """Has the mutant's lines name the files where its texts are."""
    for replacement, file in moves(mutant, sources):
        before = str(replacement.place)
        replacement.place.file = file
        for index, line in enumerate(mutant.lines):
            if line.startswith("in:") and line[3:].split() == before.split():
                mutant.lines[index] = f"in: {replacement.place}"


def mended(mutants, sources):
    """What the tables should be: each mutant in its layer's, in the order of names."""
    tables = collections.defaultdict(list)
    for mutant in mutants:
        follow(mutant, sources)
        tables[table_of(mutant.replacements[0].place.file)].append(mutant)
    return {name: write_table(mutants) for name, mutants in tables.items()}
