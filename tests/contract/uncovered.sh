#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Says which of the answers in pairs.txt no case shows.
#   uncovered.sh SOURCE
# SOURCE is an output of tarn_contract, or `h200` for the record. pairs.txt has a function and a
# result a line; lines with # are comments. An answer is shown when a line of the source has it as
# "function=RESULT". Exit status 0: all are shown.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
"$here/lines.sh" "$1" >"$scratch"
awk -v pairs="$here/pairs.txt" '
    FILENAME == pairs {
        if ($0 !~ /^(#|$)/)
            wanted[++count] = $1 "=" $2
        next
    }
    {
        while (match($0, /cu[A-Z][A-Za-z0-9]*=[A-Z_0-9]+/)) {
            shown[substr($0, RSTART, RLENGTH)] = 1
            $0 = substr($0, RSTART + RLENGTH)
        }
    }
    END {
        for (i = 1; i <= count; i++) {
            if (!(wanted[i] in shown)) {
                print wanted[i] " is shown by no case"
                missing++
            }
        }
        printf "%d answers, %d not shown\n", count, missing
        exit missing > 0
    }' "$here/pairs.txt" "$scratch"
