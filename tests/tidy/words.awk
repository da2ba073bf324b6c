# SPDX-License-Identifier: Apache-2.0
# words.awk ARCHITECTURE.md SOURCE... -- the page's length, and its table of words. Prints a sentence for each violation.
#
# The page has at most 200 lines, its table of words left out: the lines of the section "Words" that begin with a bar.
#
# A struct's name, without tn_ or tarn_, is words between underscores. Each of them stands in the first column of a row
# of that table, alone or beside others, in the singular or with an s; or is one of the words below, which say how
# records are kept and mean here what they mean anywhere. So the rows of "block" and of "cold" cover tn_block_cold,
# and whoever names a struct by a new word writes a row. The nouns of the simulator are the driver's: structs of
# src/sim need no row.
#
# A row says where its words are at home: one file of src or include at least, and each word of the first column is in
# one of them.

BEGIN {
    count = split("table list set store entry item slab record links address owner key param properties settings " \
                  "counters usage limit state shape answer choice target error", names, " ")
    for (i = 1; i <= count; i++)
        plain[singular(names[i])] = 1
}

function report(line, text) { print FILENAME ":" line ": " text }

# The singular of a word, for what is compared here: bodies is body, watches is watch, bins is bin.
function singular(word) {
    if (word ~ /ies$/)
        return substr(word, 1, length(word) - 3) "y"
    if (word ~ /(ss|sh|tch|x)es$/)
        return substr(word, 1, length(word) - 2)
    return word ~ /[^s]s$/ ? substr(word, 1, length(word) - 1) : word
}

# Reads the files that a cell names into text, in lower case. Returns how many are there.
function read_files(cell,    found, name, line) {
    text = ""
    while (match(cell, /`[a-z]+(\/[a-z_]+)+\.[ch]`/)) {
        name = substr(cell, RSTART + 1, RLENGTH - 2)
        cell = substr(cell, RSTART + RLENGTH)
        name = (name ~ /^tarn\// ? "include/" : "src/") name
        if ((getline line < name) <= 0)
            continue # tidy.sh says that it is not there
        found++
        do
            text = text " " tolower(line)
        while ((getline line < name) > 0)
        close(name)
    }
    return found
}

function row(line,    cells, count, words, i, word) {
    split(line, cells, / *\| */)
    if (cells[2] ~ /^-+$/ || cells[3] == "meaning")
        return
    if (!read_files(cells[4]))
        report(FNR, "the row of " cells[2] " says not where that is: name a file")
    count = split(cells[2], words, /, */)
    for (i = 1; i <= count; i++) {
        if (words[i] in terms)
            report(FNR, words[i] " has a row above")
        terms[words[i]] = 1
    }
    count = split(tolower(cells[2]), words, /[, ]+/)
    for (i = 1; i <= count; i++) {
        word = singular(words[i])
        rows[word] = 1
        if (text != "" && !index(text, word ~ /y$/ ? substr(word, 1, length(word) - 1) : word))
            report(FNR, words[i] " is in no file that its row names")
    }
}

FILENAME == ARGV[1] {
    if (/^## /)
        in_words = /^## Words$/
    if (in_words && /^\|/)
        row($0)
    else if (++page_length == 201)
        report(FNR, "has more than 200 lines without its table of words; move what is no map")
    next
}

/^struct (tn|tarn)_[a-z0-9_]+ \{/ {
    name = $2
    sub(/^(tn|tarn)_/, "", name)
    count = split(name, words, "_")
    for (i = 1; i <= count; i++)
        if (!(singular(words[i]) in rows) && !(singular(words[i]) in plain))
            report(FNR, "struct " $2 ": " words[i] " has no row in ARCHITECTURE.md's table of words")
}
