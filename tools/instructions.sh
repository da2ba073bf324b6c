#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# instructions.sh [--all | --record | --limits] [BUILD]
#     Counts the instructions of Tarn's steady state on the simulated driver, without a history, in a
#     release build (build/release), and compares them with those in bench/results/instructions.jsonl. Needs
#     valgrind, and its headers when the build is made; exits with 77 where there is none.
#
#     It fails where a count of the library, or of all that a call does, is more than a tenth above
#     the recorded one; with another compiler than the recorded one, more than a quarter. Fewer is
#     progress: record it. Traces of more than 10,000 blocks are left out, as they take minutes, and
#     those of blocks up to 64 MiB and 1 GiB; each of the following counts them, too:
#     --all     compares everything
#     --record  writes the file anew, instead
#     --limits  fails, instead, where the steps of two cases are not within a factor of 2
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
mode=check
some=--brief
case ${1:-} in
--all)
    some=
    shift
    ;;
--record | --limits)
    mode=${1#--}
    some=
    shift
    ;;
--*)
    sed -n '3,17s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
build=${1:-$tools/../build/release}
recorded=$tools/../bench/results/instructions.jsonl
if ! command -v valgrind >/dev/null; then
    echo 'instructions.sh: valgrind is not installed' >&2
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# As much memory as an H200 has; none of it is touched.
run() {
    TARN_CONF=history_bytes:none TARN_DRIVER=$build/lib/libtarn_sim.so TARN_SIM_MEMORY_MIB=143771 valgrind --tool=callgrind -q \
        --instr-atstart=no --compress-strings=no --compress-pos=no \
        --callgrind-out-file="$scratch/counts" "$build/bin/tarn_instructions" $some >"$scratch/printed"
}
result=0
run || result=$?
[ "$result" = 0 ] || exit "$result"
compiler=$(sed -n 's/^compiler: //p' "$scratch/printed")
commit=$(sed -n 's/^commit: //p' "$scratch/printed")
sed -n 's/^left out: //p' "$scratch/printed" >"$scratch/left_out"

head="{\"date\": \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\", \"commit\": \"$commit\", \"compiler\": \"$compiler\""

# A line for each case: its name, how often it was done, and by whom instructions were executed. What
# a function executed itself is "line count"; the line after a "calls=" is what its callee did.
for file in $(ls "$scratch" | sed -n 's/^counts\.\([0-9]*\)$/\1/p' | sort -n); do
    awk -v head="$head" '
        sub(/^desc: Trigger: Client Request: /, "") { split($0, name, "/") }
        /^ob=/ {
            part = "other"
            if ($0 ~ /libtarn_sim\.so[^\/]*$/)
                part = "driver"
            else if ($0 ~ /libtarn\.so[^\/]*$/)
                part = "library"
            else if ($0 ~ /tarn_instructions$/)
                part = "program"
        }
        /^calls=/ {
            getline
            next
        }
        /^[0-9]+ [0-9]+$/ { count[part] += $2 / name[2] }
        END {
            printf "%s, \"case\": \"%s\", \"times\": %d", head, name[1], name[2]
            printf ", \"library\": %.1f, \"driver\": %.1f", count["library"], count["driver"]
            printf ", \"other\": %.1f}\n", count["other"]
        }' "$scratch/counts.$file"
done >"$scratch/lines"
[ -s "$scratch/lines" ] || { echo 'instructions.sh: callgrind has counted nothing' >&2; exit 1; }

if [ "$mode" = record ]; then
    cp "$scratch/lines" "$recorded"
    echo "recorded $(wc -l <"$recorded") cases, by $compiler"
    exit 0
fi

awk -v mode="$mode" -v recorded="$recorded" -v left_out="$scratch/left_out" '
    # What stands after "name": in a line of JSON.
    function field(name,    rest) {
        rest = substr($0, index($0, "\"" name "\":") + length(name) + 3)
        sub(/^ /, "", rest)
        if (substr(rest, 1, 1) == "\"") {
            rest = substr(rest, 2)
            return substr(rest, 1, index(rest, "\"") - 1)
        }
        sub(/[,}].*/, "", rest)
        return rest + 0
    }
    function fail(sentence) {
        failed[++failures] = sentence
    }
    # The least and the most of a kind of cases.
    function span(kind) {
        if (!(kind in least) || mine < least[kind]) {
            least[kind] = mine
            least_name[kind] = name
        }
        if (mine > most[kind]) {
            most[kind] = mine
            most_name[kind] = name
        }
    }
    function print_span(kind) {
        printf "%s take %.1f (%s) to %.1f (%s): a factor of %.2f\n", kind, least[kind],
            least_name[kind], most[kind], most_name[kind], most[kind] / least[kind]
    }
    FILENAME == left_out {
        is_left_out[$0] = 1
        next
    }
    {
        name = field("case")
        mine = field("library")
        total = mine + field("driver") + field("other")
    }
    FILENAME == recorded {
        recorded_too[name] = 1
        library[name] = mine
        all[name] = total
        compiler = field("compiler")
        next
    }
    FNR == 1 {
        limit = 1.1
        if (field("compiler") != compiler) {
            limit = 1.25
            print "recorded with " compiler ", built with " field("compiler") ": a quarter more may be"
        }
        printf "%-44s %9s %9s %9s %9s\n", "instructions, each time", "library", "recorded", "all",
            "recorded"
    }
    {
        counted[name] = 1
        if (name !~ /^growth|^replay|another thread/) { # what is a step
            span("steps")
            span(name ~ /^pair/ ? "of them pairs" : "of them among live blocks")
        }
        if (mode == "check" && !(name in recorded_too))
            fail(name ": is not recorded")
        else if (mode == "check" && (mine > library[name] * limit || total > all[name] * limit))
            fail(name ": " mine " instructions of the library, " total " in all")
        printf "%-44s %9.1f %9.1f %9.1f %9.1f\n", name, mine, library[name], total, all[name]
    }
    END {
        print_span("steps")
        print_span("of them pairs")
        print_span("of them among live blocks")
        if (mode == "limits" && most["steps"] > 2 * least["steps"])
            fail("that is more than 2")
        for (name in recorded_too) {
            if (mode == "check" && !(name in counted) && !(name in is_left_out))
                fail(name ": is recorded, but was not counted")
        }
        for (i = 1; i <= failures; i++)
            print "FAILED: " failed[i]
        exit failures > 0
    }' "$scratch/left_out" "$recorded" "$scratch/lines"
