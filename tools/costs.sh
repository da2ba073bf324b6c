#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the simulator's account of driver time with what a GPU's driver took, from the lines that
# tarn_bench has written for each:
#   tools/costs.sh SIMULATED.jsonl MEASURED.jsonl
# Prints every figure of both, and the machine's pace: the middle of what the larger cases' driver time is here, in
# times of the account's. Machines of one kind differ, and one machine differs from hour to hour when
# strangers share its host. So each case is held against the account at the middle pace of all other cases of
# 20 us or more. An error of the account that all cases share, of less than the pace may be, is not seen.
# Exit status 1, each with a word:
#   - fewer than four cases of 20 us or more;
#   - the pace is not between 2/3 and 3/2, by which machines of one kind differ;
#   - a case of one file is not in the other, or its driver took no time;
#   - the driver's time in the whole of a case differs from the account at this pace by more than 25 %, and by
#     more than 5 us or half of itself, which the clock and a stranger on the host take;
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
        if (!(name in account) && !(name in took))
            order[++count] = name
        if (FILENAME == simulated)
            account[name] = field("median") + 0
        else
            took[name] = field("median") + 0
    }
    function is_time(name) {
        return name ~ /: in the driver$/
    }
    # The middle of the paces of the larger cases but for one; 0: there are none.
    function middle_pace(except,    i, j, n, held, paces) {
        n = 0
        for (i = 1; i <= count; i++)
            if (is_time(order[i]) && order[i] != except && account[order[i]] >= 20 && took[order[i]] > 0)
                paces[++n] = took[order[i]] / account[order[i]]
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && paces[j - 1] > paces[j]; j--) {
                held = paces[j]
                paces[j] = paces[j - 1]
                paces[j - 1] = held
            }
        cases = n
        return n == 0 ? 0 : (paces[int((n + 1) / 2)] + paces[int(n / 2) + 1]) / 2
    }
    function distance(a, b) {
        return a > b ? a - b : b - a
    }
    function verdict_on_time(name,    expected, apart, least) {
        expected = account[name] * middle_pace(name)
        apart = distance(took[name], expected)
        least = expected / 2 < 5 ? expected / 2 : 5
        return took[name] <= 0 || (apart > 0.25 * expected && apart > least) ? "DIFFERS" : "at the pace"
    }
    END {
        pace = middle_pace("")
        enough = cases >= 4
        printf "%-60s %12s %12s\n", "", "simulated", "measured"
        for (i = 1; i <= count; i++) {
            name = order[i]
            judged = is_time(name) || name ~ /: calls$/
            ratio = took[name] > 0 ? account[name] / took[name] : 0
            if (!(name in took) || !(name in account))
                verdict = judged ? "DIFFERS: in one file alone" : ""
            else if (is_time(name))
                verdict = verdict_on_time(name)
            else
                verdict = !judged ? "" : ratio >= 0.95 && ratio <= 1.05 ? "equal" : "DIFFERS"
            differ += verdict ~ /DIFFERS/
            printf "%-60s %12.2f %12.2f  %5.2f  %s\n", name, account[name], took[name], ratio, verdict
        }
        verdict = pace >= 2 / 3 && pace <= 3 / 2 ? "a machine like the account'"'"'s" : "NOT THE ACCOUNT'"'"'S MACHINE"
        if (!enough)
            verdict = "TOO FEW CASES"
        differ += verdict !~ /like/
        printf "pace %.2f: %s\n", pace, verdict
        printf "%d cases, %d differ\n", count, differ
        exit differ > 0
    }' "$1" "$2"
