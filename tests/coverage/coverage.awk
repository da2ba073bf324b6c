# SPDX-License-Identifier: Apache-2.0
# coverage.awk -- the file of reasons, then what gcov prints of all sources.
#
# A reason is a line that ends with a colon; the lines that it is for follow, indented: file, a bar, and
# the text of the line as the source has it. A line is known by its text, so that it may move; each entry
# excuses one line of that text, and one that excuses none is wrong.
function trim(text) {
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    return text
}

FNR == 1 { file += 1 }

file == 1 && /^#/ { next }
file == 1 && /^[^ ].*:$/ { reason = $0; next }
file == 1 && /^ / {
    at = index($0, "|")
    name = trim(substr($0, 1, at - 1))
    text = trim(substr($0, at + 1))
    if (at == 0 || reason == "")
        wrong("uncovered.txt:" FNR ": is not an indented 'file | text' behind a reason")
    excused[name, text] = FNR
    left[name, text] += 1
    next
}
file == 1 { next }

# gcov: count:line:text; line 0 tells the source.
{
    first = index($0, ":")
    rest = substr($0, first + 1)
    second = index(rest, ":")
    count = trim(substr($0, 1, first - 1))
    line = trim(substr(rest, 1, second - 1)) + 0
    text = substr(rest, second + 1)
}
line == 0 && text ~ /^Source:/ {
    source = substr(text, 8)
    while (sub(/^\.\.\//, "", source))
        continue
    if (index(source, root) == 1)
        source = substr(source, length(root) + 1)
    next
}
text ~ /^[ \t]*[{}][ \t]*$/ { next } # a brace is no code, whatever the compiler counts there
source !~ /^src\// || source ~ /^src\/sim\// || line == 0 || count == "-" { next }
{
    if (!((source, line) in runs)) {
        runs[source, line] = 0
        text_of[source, line] = trim(text)
        lines[source] += 1
        if (line > last[source])
            last[source] = line + 0
    }
    if (count !~ /[#=]/)
        runs[source, line] = 1
}

function wrong(sentence) {
    print sentence
    failures += 1
}

END {
    for (source in lines) {
        for (line = 1; line <= last[source]; line++) {
            if (!((source, line) in runs))
                continue
            all += 1
            text = text_of[source, line]
            if (runs[source, line]) {
                ran += 1
                ran_of[source] += 1
            } else if (left[source, text] > 0) {
                left[source, text] -= 1
                with_reason += 1
            } else
                missing[source] = missing[source] source ":" line ": never ran: " text "\n"
        }
    }
    sort = "sort"
    for (source in lines)
        printf "%6.1f%% of %4d lines  %s\n", 100 * ran_of[source] / lines[source], lines[source], source | sort
    close(sort)
    sort = "sort -t: -k1,1 -k2,2n"
    for (source in missing) {
        printf "%s", missing[source] | sort
        without += gsub(/\n/, "", missing[source])
    }
    close(sort)
    for (key in excused) {
        split(key, part, SUBSEP)
        if (left[key] > 0)
            wrong("uncovered.txt:" excused[key] ": ran after all, or is not there any more: " part[1] \
                  " | " part[2])
    }
    if (all == 0)
        wrong("gcov has counted nothing")
    else
        printf "%d of %d lines ran: %.2f%%; %d more have a reason not to; %d have none\n", ran, all, \
            100 * ran / all, with_reason, without
    exit failures + without > 0
}
