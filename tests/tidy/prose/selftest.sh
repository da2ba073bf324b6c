#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# selftest.sh [PYTHON] -- shows that prose.py fires. A small tree is clean; with each of bad/*.txt written into
# it there is exactly one fault, and it is the expected one. The form is that of ../selftest.sh: a
# path, the sentence that is expected, the text.
set -eu
python=${1:-python3}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
failures=0

good_tree() {
    rm -rf "$tree"
    mkdir -p "$tree/include/tarn" "$tree/src/vmm" "$tree/docs" "$tree/tests/tidy"
    spdx='// SPDX-License-Identifier: Apache-2.0'
    printf '%s\n' "$spdx" '/* Makes a thing. */' 'int tarn_thing_make(void);' \
        'struct tarn_thing {' '    /* Its size. */' '    int bytes;' '};' \
        >"$tree/include/tarn/thing.h"
    # A source's sentences may be long, and begin with anything.
    printf '%s\n' "$spdx" '/* What a segment has are slots and chunks and blocks and arenas and heaps and bins' \
        ' * and pools and holds and fences and uses and watches and guards and bodies and groups. */' \
        >"$tree/src/vmm/segment.c"
    printf '%s\n' "$spdx" 'struct tn_segment {' '    int owner; /* the pool */' '};' \
        >"$tree/src/vmm/segment.h"
    # Code, tables and the targets of links are no prose.
    printf '%s\n' '# Page' '' 'The pool [waits](https://example.org/what/it/is) for `it`: and goes.' '' \
        '| what it is that who |' '| --- |' '| what | it |' '' '    it that who what()' '' '```' \
        'it that who what' '```' >"$tree/docs/page.md"
    printf '%s\n' '# Undone' '' 'What is read goes. The reader reads on, and comes to the end of the page at' \
        'last. Nothing else is on the page.' >"$tree/docs/undone.md"
    echo docs/undone.md >"$tree/tests/tidy/prose.txt"
}

run() { "$python" -B "$here/../prose.py" --tree "$tree" >"$scratch/output"; }

fail() {
    echo "$1"
    cat "$scratch/output"
    failures=$((failures + 1))
}

good_tree
run || fail 'the good tree is not clean:'

count=0
for snippet in "$here"/bad/*.txt; do
    good_tree
    sed 1,2d "$snippet" >"$tree/$(sed -n 1p "$snippet")"
    if run; then
        fail "${snippet##*/} was not caught:"
    elif [ "$(sed 1d "$scratch/output")" != "$(sed -n 2p "$snippet")" ]; then
        fail "${snippet##*/} should give: $(sed -n 2p "$snippet")"
    fi
    count=$((count + 1))
done

# What is over goes from the list, and all else stays there.
good_tree
printf '%s\n' '# Not done:' docs/gone.md docs/page.md docs/undone.md >"$tree/tests/tidy/prose.txt"
"$python" -B "$here/../prose.py" --mend "$tree" >"$scratch/output" || fail 'the list was not mended:'
cp "$tree/tests/tidy/prose.txt" "$scratch/output"
[ "$(cat "$scratch/output")" = "$(printf '%s\n' '# Not done:' docs/undone.md)" ] ||
    fail 'the list was mended to:'

echo "$count snippets, $failures failures"
[ "$failures" -eq 0 ]
