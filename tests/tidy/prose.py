#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the prose of headers, pages and sources, file by file.

  prose.py [--figures] FILE...    faults on stdout, exit status 1 where there is one
  prose.py --tree ROOT            the same for every page, public header and source of the tree, but for those
                                  that tests/tidy/prose.txt lists; and for lines of that list which are over
  prose.py --mend ROOT            takes such lines from the list; adds none

The list names the files that do not meet the measure yet, a path a line. So a file that once met it
stays so, and a file that is new must.

What is measured: paragraphs of Markdown pages, and comments of C files. Left out are code, in fences, by
indentation or between backticks, tables, quoted output, link targets and licence lines. A sentence ends at
a full stop, question mark, colon or semicolon that a space follows, and with its paragraph. A word is a run
of letters.

  page, public header   at most 25 words a sentence; none that begins with Who, What, Of, Such or So that;
                        at most 5 pronouns in 100 words; at most 100 columns
  public header         a field's comment stands above the field, and no declaration is torn
  source                at most 6 pronouns in 100 words
"""
import os
import re
import sys

PRONOUNS = {'it', 'that', 'those', 'what', 'who', 'such', 'so', 'there', 'one'}
BAD_BEGINNING = re.compile(r'(Who|What|Of|Such|So that)\b')
WORDS_MOST = 25
COLUMNS_MOST = 100
WORD = re.compile(r'[^\W\d_]+')
END = re.compile(r'(?<=[.?:;])\s')
CODE_LINE = re.compile(r'''.*[;{}\\]$|.*\);|.*\)\s*\\?$|^\s*\#|^\s*\.\.\.''')
FIELD = re.compile(r'^ {4,}[A-Za-z_][\w *(),]*[ *(]\w+[\w *(),]*(\[\w+\])*( : \d+)?;\s*/[*/]')
MARK = re.compile(r'''"(\\.|[^"\\])*"|'(\\.|[^'\\])*'|/\*|//''')
LIST = 'tests/tidy/prose.txt'
TORN = re.compile(r'^    [A-Za-z_]\w*$')


class Text:
    """Paragraphs: each a list of (line number, text)."""

    def __init__(self):
        self.paragraphs = []
        self.open = []

    def add(self, number, text):
        self.open.append((number, text))

    def end(self):
        if self.open:
            self.paragraphs.append(self.open)
        self.open = []


def clean(text):
    text = re.sub(r'!?\[([^\]]*)\]\([^)]*\)', r'\1', text)
    text = re.sub(r'<https?:[^>]*>|https?:\S+', '', text)
    return text


def read_page(lines):
    text = Text()
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith('```'):
            fenced = not fenced
            text.end()
        elif fenced or not line.strip() or line.lstrip().startswith(('|', '<', '>')):
            text.end()
        elif re.match(r'#+ ', line):
            text.end()
            text.add(number, re.sub(r'^#+ ', '', line))
            text.end()
        elif re.match(r'( {4}|\t)', line) and not text.open:
            continue  # code by indentation, behind an empty line
        else:
            item = re.match(r'\s*([-*+]|\d+\.) +', line)
            if item:
                text.end()
                line = line[item.end():]
            text.add(number, line.strip())
    text.end()
    return text.paragraphs


def read_source(lines):
    """The comments of a C file. An indented line that reads as code is code."""
    text = Text()
    inside = False
    for number, line in enumerate(lines, 1):
        rest = line
        while rest:
            if not inside:
                mark = next((mark for mark in MARK.finditer(rest) if mark.group()[0] == '/'), None)
                if mark is None or mark.group() == '//':
                    break
                inside = True
                rest = rest[mark.end():]
            at = rest.find('*/')
            part = rest if at < 0 else rest[:at]
            part = re.sub(r'^\s*\* ?', '', part) if part is rest and at != 0 else part
            part = re.sub(r'^\s*\*(?=\s|$)', '', part).rstrip()
            if not part.strip():
                text.end()
            elif re.match(r'\s{2,}', part) and CODE_LINE.match(part):
                text.end()
            else:
                text.add(number, part.strip())
            if at < 0:
                rest = ''
            else:
                text.end()
                inside = False
                rest = rest[at + 2:]
    text.end()
    return text.paragraphs


def sentences(paragraph):
    """(line number, sentence) of each; backticked code is left out of it."""
    joined = ''
    places = []
    for number, part in paragraph:
        places.append((len(joined), number))
        joined += part + ' '
    joined = re.sub(r'`[^`]*`', lambda found: ' ' * len(found.group()), joined)
    begin = 0
    for found in list(END.finditer(joined)) + [None]:
        end = found.end() if found else len(joined)
        sentence = joined[begin:end]
        if WORD.search(sentence):
            first = begin + len(sentence) - len(sentence.lstrip())
            yield max(place for place in places if place[0] <= first)[1], clean(sentence).strip()
        begin = end


def measure(path, kind, report, figures):
    lines = open(path, encoding='utf-8').read().split('\n')
    paragraphs = read_page(lines) if kind == 'page' else read_source(lines)
    words = pronouns = 0
    for paragraph in paragraphs:
        for number, sentence in sentences(paragraph):
            found = WORD.findall(sentence)
            words += len(found)
            pronouns += sum(word.lower() in PRONOUNS for word in found)
            if kind == 'source':
                continue
            if len(found) > WORDS_MOST:
                report(f'{path}:{number}: a sentence of {len(found)} words: {sentence[:60]}...')
            if BAD_BEGINNING.match(sentence.lstrip('*_"(')):
                report(f'{path}:{number}: begins with a relative: {sentence[:60]}...')
    most = 6 if kind == 'source' else 5
    if words and pronouns * 100 > most * words:
        report(f'{path}: {pronouns * 100 / words:.1f} pronouns in 100 words, at most {most}')
    if figures:
        print(f'{path}: {words} words, {pronouns * 100 / max(words, 1):.1f} pronouns in 100')
    if kind == 'source':
        return
    table = False
    for number, line in enumerate(lines, 1):
        table = line.startswith('|')
        if len(line) > COLUMNS_MOST and not table and 'http' not in line:
            report(f'{path}:{number}: {len(line)} columns')
        if kind == 'header' and FIELD.match(line):
            report(f'{path}:{number}: the comment of a field stands behind it, not above')
        if kind == 'header' and TORN.match(line):
            report(f'{path}:{number}: a declaration is torn')


def kind_of(path):
    if path.endswith('.md'):
        return 'page'
    return 'header' if '/tarn/' in path or path.startswith('include/') else 'source'


def files_of(root):
    """The paths from root of all that is measured, in order."""
    paths = []
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in ('.git', 'build')]
        at = os.path.relpath(folder, root)
        for name in names:
            path = name if at == '.' else f'{at}/{name}'
            if name.endswith('.md') or re.match(r'(include|src)/.*\.[ch]$', path):
                paths.append(path)
    return sorted(paths)


def measure_tree(mend):
    """Measures the tree in the working directory. Returns the faults."""
    listed = {}
    if os.path.exists(LIST):
        for number, line in enumerate(open(LIST, encoding='utf-8').read().splitlines(), 1):
            if line and not line.startswith('#'):
                listed[line] = number
    paths = files_of('.')
    faults = [f'{LIST}:{listed[path]}: names {path}, which is not measured'
              for path in listed if path not in paths]
    over = [path for path in listed if path not in paths]
    for path in paths:
        found = []
        measure(path, kind_of(path), found.append, False)
        if path not in listed:
            faults += found
        elif not found:
            faults.append(f'{LIST}:{listed[path]}: names {path}, which meets the measure by now')
            over.append(path)
    if not mend:
        print(f'prose: {len(paths)} files, {len(listed)} not yet done')
        return faults
    lines = open(LIST, encoding='utf-8').read().splitlines()
    with open(LIST, 'w', encoding='utf-8') as out:
        out.writelines(line + '\n' for line in lines if line not in over)
    return []


def main():
    paths = sys.argv[1:]
    faults = []
    if len(paths) == 2 and paths[0] in ('--tree', '--mend'):
        os.chdir(paths[1])
        faults = measure_tree(paths[0] == '--mend')
    else:
        for path in paths:
            if path != '--figures':
                measure(path, kind_of(path), faults.append, '--figures' in paths)
    print('\n'.join(faults), end='\n' if faults else '')
    sys.exit(1 if faults else 0)


main()
