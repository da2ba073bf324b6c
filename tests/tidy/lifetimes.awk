# SPDX-License-Identifier: Apache-2.0
# lifetimes.awk -- the table of docs/lifetimes.md, given first, and the suites behind it, given next.
# A cell is a sentence and, behind <br>, its tests in backticks.
function report(line, text) { print table ":" line ": " text }

FNR == 1 { file += 1 }
FNR == 1 && file == 1 { table = FILENAME }

file == 1 && /^\|/ {
    count = split($0, cell, "|") - 2 # nothing stands before the first bar and behind the last
    rows += 1
    if (rows == 1)
        columns = count
    if (count != columns)
        report(FNR, "has " count " cells, and the head of the table " columns)
    for (i = 3; i <= count + 1 && rows > 2; i++) {
        text = cell[i]
        if (!match(text, /<br>/)) {
            report(FNR, "cell " i - 2 " is empty or names no test")
            continue
        }
        names = substr(text, RSTART + 4)
        text = substr(text, 1, RSTART - 1)
        gsub(/[ `]/, "", text)
        if (text == "" || names !~ /`[a-z0-9_]+`/)
            report(FNR, "cell " i - 2 " is empty or names no test")
        while (match(names, /`[a-z0-9_]+`/)) {
            name = substr(names, RSTART + 1, RLENGTH - 2)
            names = substr(names, RSTART + RLENGTH)
            named[name] = FNR
        }
    }
}

file > 1 && match($0, /^START_TEST\([a-z0-9_]+\)/) {
    name = substr($0, 12, RLENGTH - 12)
    written[name] = FILENAME ":" FNR
}
file > 1 && match($0, /tcase_add_(loop_)?test\(tcase,[ ]*[a-z0-9_]+/) {
    name = substr($0, RSTART, RLENGTH)
    sub(/.*[ ,]/, "", name)
    run[name] = 1
}
# A long name stands on a line of its own.
file > 1 && /^ +[a-z0-9_]+\);$/ {
    name = $1
    sub(/\);/, "", name)
    run[name] = 1
}

END {
    if (rows < 3)
        report(1, "has no table")
    for (name in named) {
        if (!(name in written))
            report(named[name], "names " name ", which is no test of tests/api/test_lifetimes_*.c")
        else if (!(name in run))
            print written[name] ": " name " is never run"
    }
    for (name in written) {
        if (!(name in named))
            print written[name] ": " name " is named by no cell of " table
    }
}
