#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares two outputs of tarn_contract, line by line.
#   compare.sh ONE OTHER [EXCEPTIONS]
# EXCEPTIONS names the cases that may differ, "group/name: reason" a line, or "group/*: reason" for all of a
# group; lines with # are comments.
# An exception that is not needed is reported too. Exit status 0: nothing else differs.
set -eu
awk -v one="$1" -v other="$2" '
    function name(line) { sub(/^[A-Za-z]+ /, "", line); sub(/: .*/, "", line); return line }
    /^#/ || /^$/ { next }
    FILENAME == one { first[name($0)] = $0; order[++count] = name($0); next }
    FILENAME == other { second[name($0)] = $0; if (!(name($0) in first)) order[++count] = name($0); next }
    { sub(/:.*/, ""); excepted[$0] = 1 }
    function exception(n) {
        if (n in excepted)
            return n
        sub(/\/.*/, "/*", n)
        return n
    }
    END {
        for (i = 1; i <= count; i++) {
            n = order[i]
            one_line = (n in first) ? first[n] : n " is missing"
            other_line = (n in second) ? second[n] : n " is missing"
            if (one_line == other_line)
                continue
            if (exception(n) in excepted) {
                needed[exception(n)] = 1
                continue
            }
            print "- " one_line
            print "+ " other_line
            wrong++
        }
        for (n in excepted) {
            exceptions++
            if (!(n in needed)) {
                print "no exception is needed for " n
                wrong++
            }
        }
        printf "%d cases, %d differ, %d excepted\n", count, wrong, exceptions
        exit wrong > 0
    }' "$@"
