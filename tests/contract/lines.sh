#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints "VERDICT GROUP/NAME | ANSWERS" for each case. Runs of the contract are compared by these
# lines.
#   lines.sh OUTPUT    of an output of tarn_contract: its lines without the sentences
#   lines.sh h200      of the record: what an H200 answered
#   lines.sh sim       what the simulator must answer: the same, but for the exceptions, and
#                      for cases that no GPU has answered yet
# Exit status 0, or 1 when the record cannot be read.
set -eu
recorded=$(cd "$(dirname "$0")" && pwd)/recorded

expand() {
    awk -v mode=expand -f "$recorded/../notation.awk" "$@"
}

case $1 in
h200)
    expand "$recorded"/h200/*.txt
    ;;
sim)
    exceptions=$(expand "$recorded/exceptions.txt")
    unrecorded=$(expand "$recorded/unrecorded.txt")
    answers=$(expand "$recorded"/h200/*.txt)
    printf '%s\n%s\n%s\n' "$exceptions" "$unrecorded" "$answers" | awk 'NF > 0 && !seen[$2]++'
    ;;
*)
    sed '/^#/d; s/^\([A-Z]*[a-z]* [^:]*\): [^|]*|/\1 |/' "$1"
    ;;
esac
