# SPDX-License-Identifier: Apache-2.0
# lifetimes.awk -- docs/lifetimes.md, given first, the tests of its cells, given next, and the
# suites behind them. The page has a table of verdicts, a row for an operation, a column for a
# state; then a section for each operation, "## free", with an item for each state, "- *live*: a
# sentence". The file of tests has a line for each cell, "free / live: test test".
function report(name, line, text) { print name ":" line ": " text }

function trim(text) {
    gsub(/^[ *]+|[ *]+$/, "", text)
    return text
}

FNR == 1 { file += 1 }
FNR == 1 && file == 1 { table = FILENAME }
FNR == 1 && file == 2 { list = FILENAME }

file == 1 && /^\|/ {
    count = split($0, cell, "|") - 2 # nothing stands before the first bar and behind the last
    rows += 1
    if (rows == 1) {
        columns = count
        for (i = 2; i <= count; i++)
            state[i] = trim(cell[i + 1])
    }
    if (count != columns)
        report(table, FNR, "has " count " cells, and the head of the table " columns)
    for (i = 2; i <= columns && rows > 2; i++) {
        text = cell[i + 1]
        gsub(/[ `]/, "", text)
        if (text == "" && i <= count)
            report(table, FNR, "cell " i - 1 " is empty")
        place[trim(cell[2]) " / " state[i]] = FNR
    }
}
file == 1 && /^## / { section = trim(substr($0, 4)) }
file == 1 && match($0, /^- \*[^*]+\*:/) && section != "" {
    name = section " / " substr($0, 4, RLENGTH - 5)
    text = substr($0, RLENGTH + 1)
    gsub(/[ `]/, "", text)
    if (!(name in place))
        report(table, FNR, name " is no cell of the table")
    else if (text == "")
        report(table, FNR, name ": has no sentence")
    else if (name in said)
        report(table, FNR, name ": has a second sentence")
    said[name] = FNR
}

file == 2 && !/^#/ {
    name = $0
    sub(/:.*/, "", name)
    if (!(name in place))
        report(list, FNR, name " is no cell of " table)
    else if (name in listed)
        report(list, FNR, name " stands here twice")
    listed[name] = FNR
    count = split(substr($0, length(name) + 2), tests, " ")
    if (count == 0)
        report(list, FNR, name ": names no test")
    for (i = 1; i <= count; i++)
        named[tests[i]] = FNR
}

file > 2 && match($0, /^TEST(_LOOP)?\([a-z0-9_]+, [a-z0-9_]+/) {
    name = substr($0, 1, RLENGTH)
    sub(/.* /, "", name)
    written[name] = FILENAME ":" FNR
}

END {
    if (rows < 3)
        report(table, 1, "has no table")
    for (name in place) {
        if (!(name in said))
            report(table, place[name], "no section says what becomes of " name)
        if (!(name in listed))
            report(table, place[name], list " has no tests of " name)
    }
    for (name in named) {
        if (!(name in written))
            report(list, named[name], "names " name ", which is no test of tests/api/test_lifetimes_*.c")
    }
    for (name in written) {
        if (!(name in named))
            print written[name] ": " name " is named by no cell of " list
    }
}
