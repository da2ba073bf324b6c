#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Headers of another version: every struct that begins with its size lacks its last field, or has one more.

  versions.py older|newer INCLUDE TO    writes the headers of INCLUDE/tarn to TO/tarn; prints the structs' names
"""
import pathlib
import re
import sys

STRUCT = re.compile(r'(typedef struct (tarn_\w+) \{)(\s*size_t size;[^{}]*)(\} \2;)')


def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*', ' ', text, flags=re.S)


def change(version, body):
    if version == 'newer':
        return body + '    uint64_t added;\n'
    fields = body.split(';')
    return ';'.join(fields[:-2]) + ';\n'


def main():
    version, include, to = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    names = []
    (to / 'tarn').mkdir(parents=True)
    for path in sorted((include / 'tarn').glob('*.h')):
        def changed(match):
            names.append(match.group(2))
            return match.group(1) + change(version, match.group(3)) + match.group(4)

        text = STRUCT.sub(changed, without_comments(path.read_text()))
        (to / 'tarn' / path.name).write_text(text)
    print('\n'.join(sorted(names)))


main()
