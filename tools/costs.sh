#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the simulator's account of driver time with what a GPU's driver took, from the lines that
# tarn_bench has written for each:
#   tools/costs.sh SIMULATED.jsonl MEASURED.jsonl
# Prints every figure of both. Exit status 1 when the driver's time in the whole of a case differs by
# more than 25 %, or the number of calls by more than 5 % (what a destructor has freed is seen by one
# capture or the next); figures of single functions are for reading.
set -eu
awk -v simulated="$1" '
    # What stands after "name": in a line of JSON.
    function field(name,    at, rest) {
        at = index($0, "\"" name "\": ")
        if (at == 0)
            return ""
        rest = substr($0, at + length(name) + 4)
        if (substr(rest, 1, 1) == "\"") {
            rest = substr(rest, 2)
            return substr(rest, 1, index(rest, "\"") - 1)
        }
        sub(/[,}].*/, "", rest)
        return rest
    }
    {
        name = field("row") "  " field("variant")
        if (index(name, ": ") == 0)
            next
        if (FILENAME == simulated)
            account[name] = field("median")
        else {
            order[++count] = name
            took[name] = field("median")
        }
    }
    END {
        printf "%-60s %12s %12s\n", "", "simulated", "measured"
        for (i = 1; i <= count; i++) {
            name = order[i]
            ratio = took[name] > 0 ? account[name] / took[name] : 0
            verdict = ""
            if (name ~ /: in the driver$/)
                verdict = ratio >= 0.75 && ratio <= 1.25 ? "within 25 %" : "DIFFERS"
            else if (name ~ /: calls$/)
                verdict = ratio >= 0.95 && ratio <= 1.05 ? "equal" : "DIFFERS"
            differ += verdict == "DIFFERS"
            printf "%-60s %12.2f %12.2f  %5.2f  %s\n", name, account[name], took[name], ratio, verdict
        }
        printf "%d cases, %d differ\n", count, differ
        exit count == 0 || differ > 0
    }' "$1" "$2"
