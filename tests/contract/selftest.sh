#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shows that the scripts beside this one see what they are for: each mistake is made in a copy of
# them and of the record, and must be named.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
copy=$scratch/contract
output=$scratch/output
failures=0
count=0

# A fresh copy, and an output that agrees with the record; the program only prints it.
begin() {
    rm -rf "$copy"
    mkdir "$copy"
    cp -r "$here"/*.sh "$here/notation.awk" "$here/pairs.txt" "$here/recorded" "$copy"
    cp "$scratch/good" "$output"
    printf '#!/bin/sh\ncat "%s"\n' "$output" >"$scratch/program"
    chmod +x "$scratch/program"
    count=$((count + 1))
}

fail() {
    echo "FAILED $1"
    tail -n 5 "$scratch/said"
    failures=$((failures + 1))
}

# passes WHAT SCRIPT ARGUMENT...
passes() {
    what=$1 script=$2
    shift 2
    "$copy/$script" "$@" >"$scratch/said" 2>&1 || fail "$what: $script should pass"
}

# sees STATUS SENTENCE WHAT SCRIPT ARGUMENT...: the script fails with the status, and says the
# sentence.
sees() {
    wanted=$1 sentence=$2 what=$3 script=$4 status=0
    shift 4
    "$copy/$script" "$@" >"$scratch/said" 2>&1 || status=$?
    [ $status = "$wanted" ] && grep -qF -- "$sentence" "$scratch/said" ||
        fail "$what: $script should say: $sentence"
}

# change FILE SCRIPT: edits a file by sed, which must change it.
change() {
    cp "$1" "$scratch/before"
    sed "$2" "$scratch/before" >"$1"
    ! cmp -s "$1" "$scratch/before" || fail "sed $2 changes nothing"
}

{
    echo '# date 2000-01-01, device NVIDIA H200, driver 1.2.3, which reports CUDA 13000'
    "$here/lines.sh" h200 | sed 's/ | /: Some sentence. | /'
} >"$scratch/good"
case=physical/recycled

# -- An output against the record --
begin
passes 'an output that agrees' compare.sh "$output" h200
sees 1 '+ ok checkpoint/cycle | this driver' 'exceptions' compare.sh "$output" sim
passes 'an output that agrees' holds.sh "$scratch/program" "$scratch/kept"
passes 'all answers' uncovered.sh "$output"

begin
change "$output" "s,^ok $case:.*,&; one answer more,"
sees 1 "- ok $case | " 'a changed answer' compare.sh "$output" h200
sees 1 "- ok $case | " 'a changed answer' check.sh "$scratch/program" "$scratch/kept"
sees 1 'expected: ok' 'a changed answer' case.sh "$scratch/program" "$case"

begin
change "$output" "s,^ok $case:,DIFFERS $case:,"
sees 1 "- DIFFERS $case | " 'a case that does not hold' compare.sh "$output" h200

begin
change "$output" "/^ok physical.recycled:/d"
sees 1 "- $case is missing" 'a case that did not run' compare.sh "$output" h200
sees 1 "did not run: $case" 'a case that did not run' holds.sh "$scratch/program" "$scratch/kept"
sees 2 "$case did not run" 'a case that did not run' case.sh "$scratch/program" "$case"

begin
echo 'ok physical/new: A case. | cuMemRelease=SUCCESS' >>"$output"
sees 1 '+ physical/new is missing' 'a case that is not recorded' compare.sh "$output" h200
sees 2 'physical/new is not recorded' 'a new case' case.sh "$scratch/program" physical/new

begin
passes 'a case of the simulator' case.sh "$scratch/program" "$case"
change "$output" 's/cuMemRelease=[A-Z_]*/cuMemRelease=UNKNOWN/g'
sees 1 'cuMemRelease=INVALID_VALUE is shown by no' 'an answer shown nowhere' uncovered.sh "$output"

begin
{
    head -n 1 "$scratch/good"
    sed 's/ | /: Some sentence. | /' "$copy/recorded/strict.txt"
} >"$output"
passes 'the strict simulator' strict.sh "$scratch/program" "$scratch/kept"
change "$output" '2s/$/; one answer more/'
sees 1 'one answer more' 'a changed strict answer' strict.sh "$scratch/program" "$scratch/kept"

# -- The record itself --
begin
passes 'the record' check_record.sh
echo 'again' >>"$copy/recorded/h200/edges.txt"
sees 1 'half a paragraph: again' 'a case without answers' check_record.sh

begin
printf '%s\n    cuMemRelease=SUCCESS\n' "${case#*/}" >>"$copy/recorded/h200/physical.txt"
sees 1 "a case that was there before: $case" 'a case recorded twice' check_record.sh

begin
printf 'new\n    cuMemRelease=SUCCESS; [gone]\n' >>"$copy/recorded/h200/physical.txt"
sees 1 'no such phrase: [gone]' 'a phrase without a meaning' check_record.sh

begin
printf 'new.{gone}\n    cuMemRelease=SUCCESS\n' >>"$copy/recorded/h200/physical.txt"
sees 1 'no such set: new.{gone}' 'a set without a meaning' check_record.sh

begin
change "$copy/recorded/h200/edges.txt" '1a\
[unused]\
    cuMemRelease=SUCCESS; it is 7'
sees 1 'no case uses [unused]' 'a phrase that nobody uses' check_record.sh

begin
change "$copy/recorded/h200/matrix.txt" \
    's/^    cuInit=SUCCESS; \[active\]/    cuInit=SUCCESS;\n    [active]/'
sees 1 'cuInit=SUCCESS;' 'another line break' check_record.sh
"$copy/check_record.sh" update >"$scratch/said" 2>&1 || :
passes 'the record written anew' check_record.sh
diff -r "$copy/recorded" "$here/recorded" >"$scratch/said" || fail 'the record written anew differs'

begin
"$here/lines.sh" h200 | sed -n "s,^ok \($case\) | \(.*\),\1\n    \2,p" \
    >>"$copy/recorded/exceptions.txt"
sees 1 "no exception is needed for $case" 'an exception that is not needed' check_record.sh

begin
printf 'physical/gone\n    cuMemRelease=SUCCESS\n' >>"$copy/recorded/exceptions.txt"
sees 1 'not recorded: physical/gone' 'an exception for no case' check_record.sh

begin
"$here/lines.sh" h200 | sed -n "s,^ok \($case\) | \(.*\),\1\n    \2,p" \
    >>"$copy/recorded/unrecorded.txt"
sees 1 "$case is recorded" 'a recorded case among the unrecorded' check_record.sh

# -- Recording --
begin
change "$output" "s,^ok $case:.*,&; one answer more,"
passes 'an output of a GPU' record.sh "$output"
passes 'what was recorded' compare.sh "$output" h200
passes 'what was recorded' check_record.sh
diff "$copy/recorded/h200/physical.txt" "$here/recorded/h200/physical.txt" |
    grep -c '^<' >"$scratch/said" || :
[ "$(cat "$scratch/said")" -le 3 ] || fail 'a changed answer changes more than its lines'

begin
change "$output" "s,^ok matrix/cuInit.global.same-global:.*,&; one answer more,"
passes 'a case out of a set' record.sh "$output"
passes 'a case out of a set' compare.sh "$output" h200

begin
change "$output" '1s/driver 1.2.3/driver simulated/'
sees 1 'the simulator gave this output' 'an output of the simulator' record.sh "$output"

begin
change "$output" 1d
sees 1 'does not say what gave it' 'an output without a head' record.sh "$output"

begin
change "$output" "s,^ok $case:,DIFFERS $case:,"
sees 1 "cannot be recorded: DIFFERS $case" 'a case that does not hold' record.sh "$output"

begin
change "$output" "/^ok physical.recycled:/d"
sees 1 "the output has no line of $case" 'a group that did not run whole' record.sh "$output"
diff -r "$copy/recorded" "$here/recorded" >"$scratch/said" || fail 'a refusal changes the record'

echo "$count copies, $failures failures"
[ $failures = 0 ]
