# SPDX-License-Identifier: Apache-2.0
# statuses.awk -- see statuses.sh. Files: status.h, the exceptions, what the suites noted, the headers.
#
# A function documents the statuses whose names, without TARN_ERR_, stand in the comment before it, and
# those of a function that the comment refers to in "Statuses as tarn_other's". TARN_OK goes without
# saying, and FORKED, which each function answers in a child of fork(). Where it documents DRIVER, DEVICE_MEMORY may be answered (status.h says so), and no suite has to
# show it: one function of the library makes the one or the other of all that the driver answers
# (tn_gpu_failed), and the scenarios of tests/fault have each call of theirs refused with that. But an answer
# that a suite does show stands in the header.
FNR == 1 { file += 1 }

file == 1 && match($0, /X\(TARN_[A-Z_]+/) {
    name = substr($0, RSTART + 7, RLENGTH - 7)
    is_status[name] = 1
    order[++statuses] = name
}

file == 2 && /^tarn_/ {
    if (!match($0, /^tarn_[a-z_]+ [A-Z_]+: +[^ ]/))
        wrong("statuses.txt:" FNR ": is not 'function STATUS: reason'")
    sub(/:/, "", $2)
    excused[$1, $2] = FNR
}

file == 3 {
    sub(/^TARN_/, "", $2)
    answered[$1, $2] = 1
    if (!(($1, $2) in first))
        first[$1, $2] = 1
    callers[$1] = 1
}

# Comments and declarations of a header. Macros are no declarations.
file > 3 {
    if (FNR == 1)
        header = FILENAME
    if (/\/\*/) {
        comment = ""
        inside = 1
    }
    if (inside)
        comment = comment " " $0
    if (/\*\//)
        inside = 0
    else if (!inside && /^TARN_API/) {
        declaration = $0
        text = comment
        comment = ""
    } else if (!inside && declaration != "")
        declaration = declaration " " $0
    else if (!inside && /[^ ]/ && !/\*\//)
        comment = ""
    if (declaration != "" && declaration ~ /\(/) {
        if (declaration ~ /tarn_status tarn_/)
            document(declaration, text)
        declaration = ""
    }
}

function document(declaration, text, name, rest, word) {
    name = substr(declaration, 1, index(declaration, "(") - 1)
    sub(/.*[ *]/, "", name)
    functions[++count] = name
    documented[name, "OK"] = 1
    documented[name, "ERR_FORKED"] = 1 # status.h says so of all
    rest = text
    while (match(rest, /[A-Z][A-Z_]+/)) {
        word = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (("ERR_" word) in is_status)
            documented[name, "ERR_" word] = 1
    }
    if (match(text, /[Ss]tatuses as tarn_[a-z_]+/))
        as[name] = substr(text, RSTART + 12, RLENGTH - 12)
}

function wrong(sentence) {
    print sentence
    failures += 1
}

END {
    for (i = 1; i <= count; i++) {
        name = functions[i]
        if (name in as)
            for (j = 1; j <= statuses; j++)
                if ((as[name], order[j]) in documented)
                    documented[name, order[j]] = 1
    }
    for (i = 1; i <= count; i++) {
        name = functions[i]
        known[name] = 1
        line = name ":"
        for (j = 1; j <= statuses; j++) {
            status = order[j]
            label = status
            sub(/^ERR_/, "", label)
            if ((name, status) in documented) {
                pairs += 1
                if ((name, status) in answered)
                    line = line " " label
                else if ((name, label) in excused || label == but || name " " label == but)
                    line = line " (" label ")"
                else {
                    line = line " [" label "?]"
                    missing[++missings] = name " documents " label ", which no suite of tests/api meets"
                }
            } else if ((name, status) in answered)
                missing[++missings] = name " answers " label ", which its header does not document"
            if ((name, label) in excused && !((name, status) in documented))
                missing[++missings] = "statuses.txt:" excused[name, label] ": " name \
                    " does not document " label
            else if ((name, label) in excused && (name, status) in answered)
                missing[++missings] = "statuses.txt:" excused[name, label] ": " name \
                    " has answered " label ", which was said to be impossible"
        }
        print line
    }
    for (name in callers)
        if (!(name in known) && name != "tarn_delta_destroy")
            wrong(name " was noted, and no header declares it")
    for (i = 1; i <= missings; i++)
        wrong(missing[i])
    print count " functions, " pairs " documented answers, " failures + 0 " wrong"
    exit failures > 0
}
