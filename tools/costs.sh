#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the simulator's account of driver time with what a GPU's driver took, from the lines that
# tarn_bench has written for each:
#   tools/costs.sh SIMULATED.jsonl MEASURED.jsonl
# Prints every figure of both, and the machine's pace: the middle of what the cases' driver time is here, in
# times of the account's. Machines of one kind differ, and one machine differs from hour to hour when
# strangers share its host. So cases are held against the account at this pace.
# Exit status 1, each with a word:
#   - the pace is not between 2/3 and 2: the account is not of this kind of machine;
#   - the driver's time in the whole of a case differs from the account at this pace by more than 25 %, and by
#     more than 5 us, which the clock and a stranger on the host take;
#   - the number of calls differs by more than 5 %: what a destructor has freed is seen by one capture
#     or the next.
# Figures of single functions are for reading.
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
            account[name] = field("median") + 0
        else {
            order[++count] = name
            took[name] = field("median") + 0
        }
    }
    # The middle of the paces of cases; 0: there are none.
    function middle_pace(    i, j, n, held, paces) {
        n = 0
        for (i = 1; i <= count; i++)
            if (order[i] ~ /: in the driver$/ && account[order[i]] > 0)
                paces[++n] = took[order[i]] / account[order[i]]
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && paces[j - 1] > paces[j]; j--) {
                held = paces[j]
                paces[j] = paces[j - 1]
                paces[j - 1] = held
            }
        return n == 0 ? 0 : (paces[int((n + 1) / 2)] + paces[int(n / 2) + 1]) / 2
    }
    function distance(a, b) {
        return a > b ? a - b : b - a
    }
    END {
        pace = middle_pace()
        printf "%-60s %12s %12s\n", "", "simulated", "measured"
        for (i = 1; i <= count; i++) {
            name = order[i]
            ratio = took[name] > 0 ? account[name] / took[name] : 0
            verdict = ""
            if (name ~ /: in the driver$/) {
                expected = account[name] * pace
                apart = distance(took[name], expected)
                verdict = apart > 0.25 * expected && apart > 5 ? "DIFFERS" : "at the pace"
            } else if (name ~ /: calls$/)
                verdict = ratio >= 0.95 && ratio <= 1.05 ? "equal" : "DIFFERS"
            differ += verdict == "DIFFERS"
            printf "%-60s %12.2f %12.2f  %5.2f  %s\n", name, account[name], took[name], ratio, verdict
        }
        verdict = pace >= 2 / 3 && pace <= 2 ? "a machine like the account'"'"'s" : "NOT THE ACCOUNT'"'"'S MACHINE"
        differ += verdict ~ /NOT/
        printf "pace %.2f: %s\n", pace, verdict
        printf "%d cases, %d differ\n", count, differ
        exit count == 0 || differ > 0
    }' "$1" "$2"
