# SPDX-License-Identifier: Apache-2.0
# Reads and writes recorded answers in the notation that README.md describes. The scripts beside
# this one run it.
#   -v mode=expand FILE...
#       prints "ok GROUP/NAME | ANSWERS" for each case of the files; with -v unused=1, phrases and
#       sets that no case uses are errors
#   -v mode=fold -v old=FOLDER -v new=FOLDER LINES
#       writes these lines to new/GROUP.txt, with the phrases and sets at the head of old/GROUP.txt;
#       a comment before the lines says what gave them
# Exit status 0, or 1: what could not be read was named on the standard error output.

BEGIN {
    width = 100
}

function complain(text) {
    print text >"/dev/stderr"
    wrong = 1
}

# -- What a file's head defines --

function forget_definitions() {
    split("", meaning)
    split("", used)
    phrase_count = set_count = 0
}

# Phrases are kept the longest first, sets as they come.
function define(name, text,    i) {
    if (name in meaning || name !~ /^(\[[^]]+\]|\{[^} ]+\})$/ || text ~ /[][{}]/) {
        complain(place ": cannot be defined: " name)
        return
    }
    meaning[name] = text
    if (name ~ /^\{/) {
        set[++set_count] = name
        return
    }
    for (i = ++phrase_count; i > 1 && length(meaning[phrase[i - 1]]) < length(text); i--)
        phrase[i] = phrase[i - 1]
    phrase[i] = name
}

# -- Reading --

# One paragraph: lines that begin in the first column, then indented ones. `heading` and `body`
# collect it.
function read_line(line) {
    if (line ~ /^(#|$)/ || (line !~ /^ / && body != ""))
        end_paragraph()
    if (line ~ /^ /) {
        sub(/^ +/, "", line)
        body = body (body == "" ? "" : " ") line
    } else if (line !~ /^(#|$)/) {
        heading = heading (heading == "" ? "" : " ") line
    }
}

function end_paragraph() {
    if ((heading == "") != (body == ""))
        complain(place ": half a paragraph: " heading body)
    else if (heading ~ /^[[{]/)
        define(heading, body)
    else if (heading != "")
        print_cases(heading, body)
    heading = body = ""
}

# The answers with each phrase written out.
function expand(answers,    part, count, i, result) {
    count = split(answers, part, "; ")
    for (i = 1; i <= count; i++) {
        if (part[i] ~ /^\[/) {
            if (!(part[i] in meaning))
                complain(place ": no such phrase: " part[i])
            used[part[i]] = 1
            part[i] = meaning[part[i]]
        }
        result = result (i > 1 ? "; " : "") part[i]
    }
    return result
}

function print_case(name, answers) {
    if (index(name, "/") == 0)
        name = group "/" name
    if (name in seen)
        complain(place ": a case that was there before: " name)
    seen[name] = 1
    print "ok " name " | " answers
}

# A set at the end of a name stands for each of its members.
function print_cases(names, answers,    name, name_count, member, member_count, at, i, k) {
    answers = expand(answers)
    name_count = split(names, name, " ")
    for (i = 1; i <= name_count; i++) {
        at = index(name[i], "{")
        if (at == 0) {
            print_case(name[i], answers)
            continue
        }
        if (!(substr(name[i], at) in meaning))
            complain(place ": no such set: " name[i])
        used[substr(name[i], at)] = 1
        member_count = split(meaning[substr(name[i], at)], member, " ")
        for (k = 1; k <= member_count; k++)
            print_case(substr(name[i], 1, at - 1) member[k], answers)
    }
}

function end_file(    name) {
    end_paragraph()
    for (name in meaning) {
        if (unused && !(name in used))
            complain(place ": no case uses " name)
    }
    forget_definitions()
}

mode == "expand" {
    if (FNR == 1) {
        end_file()
        group = FILENAME
        sub(/.*\//, "", group)
        sub(/\.txt$/, "", group)
    }
    place = FILENAME ":" FNR
    read_line($0)
    next
}

# -- Writing --

# The answers with phrases for whole parts, the longest first.
function fold(answers,    i, at, wanted) {
    answers = "; " answers ";"
    for (i = 1; i <= phrase_count; i++) {
        wanted = "; " meaning[phrase[i]] ";"
        while ((at = index(answers, wanted)) > 0)
            answers = substr(answers, 1, at + 1) phrase[i] substr(answers, at + length(wanted) - 1)
    }
    return substr(answers, 3, length(answers) - 3)
}

# If all members of the set, behind what `name` has before the first, are left: takes them out,
# gives the shorter name.
function gather(name, set_name, left,    member, count, stem, k) {
    count = split(meaning[set_name], member, " ")
    k = length(name) - length(member[1])
    if (k < 0 || substr(name, k + 1) != member[1])
        return ""
    stem = substr(name, 1, k)
    for (k = 1; k <= count; k++) {
        if (!((stem member[k]) in left))
            return ""
    }
    for (k = 1; k <= count; k++)
        delete left[stem member[k]]
    return stem set_name
}

# The names with sets for their members, those that stand first at the file's head before others.
function fold_names(names,    name, count, left, i, k, short, result) {
    count = split(names, name, " ")
    for (i = 1; i <= count; i++)
        left[name[i]] = 1
    for (i = 1; i <= count; i++) {
        if (!(name[i] in left))
            continue
        short = ""
        for (k = 1; k <= set_count && short == ""; k++)
            short = gather(name[i], set[k], left)
        delete left[name[i]]
        result = result (result == "" ? "" : " ") (short == "" ? name[i] : short)
    }
    return result
}

# Prints pieces between separators, in as few lines of the width as can be.
function print_filled(text, separator, indent,    piece, count, i, line) {
    count = split(text, piece, separator)
    line = indent piece[1]
    for (i = 2; i <= count; i++) {
        if (length(line separator piece[i]) < width) {
            line = line separator piece[i]
            continue
        }
        sub(/ $/, "", separator)
        print line separator >output
        separator = separator " "
        line = indent piece[i]
    }
    print line >output
}

# Begins the group's file: what gave the lines, and the head that the old file has, up to an empty
# line.
function begin_file(    i, line) {
    forget_definitions()
    output = new "/" group ".txt"
    place = old "/" group ".txt"
    printf "" >output
    for (i = 1; i <= comment_count; i++)
        print comment[i] >output
    while ((getline line <place) > 0 && line ~ /^[[{# ]/) {
        read_line(line)
        if (comment_count == 0 || line !~ /^# date /)
            print line >output
    }
    end_paragraph()
    close(place)
    print "" >output
}

# Writes the cases of a group, those of equal answers in one paragraph.
function end_group(    i) {
    if (group != "")
        begin_file()
    for (i = 1; i <= paragraph_count; i++) {
        print_filled(fold_names(names_of[i]), " ", "")
        print_filled(fold(answers_of[i]), "; ", "    ")
    }
    if (group != "")
        close(output)
    split("", paragraph_of)
    paragraph_count = 0
}

function add_case(name, answers,    number) {
    if (!(answers in paragraph_of)) {
        paragraph_of[answers] = ++paragraph_count
        answers_of[paragraph_count] = answers
        names_of[paragraph_count] = name
        return
    }
    number = paragraph_of[answers]
    names_of[number] = names_of[number] " " name
}

/^#/ {
    comment[++comment_count] = $0
    next
}
{
    at = index($0, " | ")
    if (at == 0 || NF < 4 || $1 != "ok" || $2 !~ /^[^\/]+\/[^\/]+$/ || $0 ~ /[][{}]|  /) {
        complain("cannot be recorded: " $0)
        next
    }
    answers = substr($0, at + 3)
    at = index($2, "/")
    if (substr($2, 1, at - 1) != group) {
        end_group()
        group = substr($2, 1, at - 1)
    }
    add_case(substr($2, at + 1), answers)
}

END {
    if (mode == "expand")
        end_file()
    else
        end_group()
    exit wrong
}
