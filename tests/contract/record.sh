#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Records what a GPU answered: writes recorded/h200/GROUP.txt anew for each group in an output of
# tarn_contract.
#   record.sh OUTPUT
# Groups are recorded whole. Refused, with nothing written: a case that does not hold, an output of
# the simulator, and an output without a case that is recorded, for which a line must be taken out
# of the group's file first. Exit status 0: recorded; git diff shows what changed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
recorded=$here/recorded/h200
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

refuse() {
    echo "record.sh: $1" >&2
    exit 1
}

case $(head -n 1 "$1") in
*' driver simulated,'*) refuse 'the simulator gave this output' ;;
'# date '*) ;;
*) refuse 'the output does not say what gave it' ;;
esac
"$here/lines.sh" "$1" | LC_ALL=C sort >"$scratch/lines"
"$here/lines.sh" h200 >"$scratch/old"
awk -v lines="$scratch/lines" '
    { group = $2; sub(/\/.*/, "", group) }
    FILENAME == lines { name[$2] = 1; groups[group] = 1; next }
    group in groups && !($2 in name) { print $2 }
' "$scratch/lines" "$scratch/old" >"$scratch/missing"
[ ! -s "$scratch/missing" ] || refuse "the output has no line of $(tr '\n' ' ' <"$scratch/missing")"
mkdir "$scratch/new"
{
    head -n 1 "$1"
    "$here/lines.sh" "$1"
} | awk -v mode=fold -v old="$recorded" -v new="$scratch/new" -f "$here/notation.awk" ||
    refuse 'nothing was recorded'
awk -v mode=expand -f "$here/notation.awk" "$scratch"/new/*.txt | LC_ALL=C sort >"$scratch/again"
cmp "$scratch/lines" "$scratch/again" || refuse 'the notation does not give these lines again'
cp "$scratch"/new/*.txt "$recorded/"
echo "recorded: $(wc -l <"$scratch/lines") cases in $(ls "$scratch/new" | wc -l) files"
