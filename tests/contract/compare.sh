#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the answers of two runs of the contract, case by case.
#   compare.sh ONE OTHER
# Each is an output of tarn_contract, or a word: `h200` for what an H200 answered, `sim` for what
# the simulator must answer. Sentences are not compared, nor cases that one device was too few for.
# Exit status 0: nothing differs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$here/lines.sh" "$1" >"$scratch/one"
"$here/lines.sh" "$2" >"$scratch/other"
awk -v one="$scratch/one" '
    FILENAME == one { first[$2] = $0 }
    FILENAME != one { second[$2] = $0 }
    !($2 in met) { met[$2] = 1; order[++count] = $2 }
    END {
        left_out = "[|] skipped: there is one device$"
        for (i = 1; i <= count; i++) {
            name = order[i]
            one_line = (name in first) ? first[name] : name " is missing"
            other_line = (name in second) ? second[name] : name " is missing"
            if (one_line == other_line || one_line ~ left_out || other_line ~ left_out)
                continue
            print "- " one_line
            print "+ " other_line
            wrong++
        }
        printf "%d cases, %d differ\n", count, wrong
        exit wrong > 0
    }' "$scratch/one" "$scratch/other"
