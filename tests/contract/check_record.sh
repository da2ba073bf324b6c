#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the record without running a case.
#   check_record.sh [update]
# `update` writes the files anew, with the phrases and sets at their heads. Exit status 0: each file
# of recorded/h200 is as record.sh writes it, each exception names a recorded case and gives other
# answers, and unrecorded.txt has no case with the answers of the record.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
recorded=$here/recorded
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
awk -v mode=expand -v unused=1 -f "$here/notation.awk" "$recorded"/h200/*.txt >"$scratch/h200"
mkdir "$scratch/new"
awk -v mode=fold -v old="$recorded/h200" -v new="$scratch/new" \
    -f "$here/notation.awk" "$scratch/h200"
status=0
[ "${1:-}" != update ] || cp "$scratch"/new/*.txt "$recorded/h200/"
diff -r "$recorded/h200" "$scratch/new" || status=1
awk -v mode=expand -f "$here/notation.awk" "$recorded/exceptions.txt" >"$scratch/exceptions"
while read -r verdict name rest; do
    if grep -qxF "$verdict $name $rest" "$scratch/h200"; then
        echo "no exception is needed for $name"
        status=1
    elif ! grep -qF " $name | " "$scratch/h200"; then
        echo "an exception for a case that is not recorded: $name"
        status=1
    fi
done <"$scratch/exceptions"
awk -v mode=expand -f "$here/notation.awk" "$recorded/unrecorded.txt" >"$scratch/unrecorded"
while read -r verdict name rest; do
    if grep -qxF "$verdict $name $rest" "$scratch/h200"; then
        echo "$name is recorded: unrecorded.txt needs it no more"
        status=1
    fi
done <"$scratch/unrecorded"
cases=$(wc -l <"$scratch/h200")
exceptions=$(wc -l <"$scratch/exceptions")
unrecorded=$(wc -l <"$scratch/unrecorded")
echo "$cases cases in $(ls "$recorded/h200" | wc -l) files, $exceptions exceptions, $unrecorded unrecorded"
exit $status
