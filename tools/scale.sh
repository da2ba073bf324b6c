#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scale.sh [--record | --check | --known] [BUILD]
#     Counts the library's instructions of each public call, without a history, while 1, 100 or
#     10,000 of something else are there: streams, blocks, graphs, pools; of blocks a million, and of
#     pending ones 100,000. Prints a table, on the simulated driver, of a release build. Needs
#     valgrind, and its headers when the build is made; exits with 77 where there is none.
#
#     A call is flat if no count is more than 1.5 times the count beside the fewest; where only
#     lives that have ended came before, 1.2 times. Other calls say what they are proportional to.
#     The table at the end of this file has the calls that ought to be flat and are not yet.
#     --check   fails where a call is not flat and not in that table; where it is in the table, and
#               flat; and where its ratio is more than 1.5 times the ratio there
#     --record  writes bench/results/scale.jsonl anew, too
#     --known   prints the lines which that table should have, instead
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
mode=print
case ${1:-} in
--record | --check | --known)
    mode=${1#--}
    shift
    ;;
--*)
    sed -n '3,16s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
build=$(cd "${1:-$tools/../build/release}" && pwd)
recorded=$tools/../bench/results/scale.jsonl
if ! command -v valgrind >/dev/null; then
    echo 'scale.sh: valgrind is not installed' >&2
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Two populations at a time, the slowest first. As much memory as an H200 has; none of it is
# touched.
"$build/bin/tarn_scale" >"$scratch/populations"
export scratch build TARN_SIM_WORK=awaited TARN_SIM_MEMORY_MIB=143771 TARN_SIM_DEVICES=2
export TARN_DRIVER="$build/lib/libtarn_sim.so" TARN_CONF=history_bytes:none
result=0
tr '\n' '\0' <"$scratch/populations" | xargs -0 -n 1 -P 2 sh -c '
    mkdir "$scratch/$1"
    valgrind --tool=callgrind -q --instr-atstart=no --collect-atstart=no --compress-strings=no \
        --compress-pos=no --callgrind-out-file="$scratch/$1/counts" \
        "$build/bin/tarn_scale" "$1" >"$scratch/$1/printed" 2>"$scratch/$1/errors" || {
        code=$?
        [ "$code" = 77 ] || { echo "tarn_scale \"$1\":"; tail -n 20 "$scratch/$1/errors"; } >&2
        echo "$code" >>"$scratch/failed"
    }' sh || result=$?
[ ! -e "$scratch/failed" ] || exit "$(sort -n "$scratch/failed" | head -n 1)"
[ "$result" = 0 ] || exit "$result"
compiler=$(cat "$scratch"/*/printed | sed -n 's/^compiler: //p' | head -n 1)
commit=$(cat "$scratch"/*/printed | sed -n 's/^commit: //p' | head -n 1)
head="\"date\": \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\", \"commit\": \"$commit\", \"compiler\": \"$compiler\""

# A line for each call and population, with its counts by size. What a function executed itself is
# "line count"; the line after a "calls=" is what its callee did.
while read -r population; do
    (cd "$scratch/$population" && ls | sed -n 's/^counts\.\([0-9]*\)$/\1/p' | sort -n |
        sed 's/^/counts./' | xargs cat)
done <"$scratch/populations" | awk -v head="$head" '
    function close_case() {
        if (key != "") {
            if (!(key in sizes)) {
                order[++cases] = key
                sizes[key] = counts[key] = ""
            }
            separator = sizes[key] == "" ? "" : ", "
            sizes[key] = sizes[key] separator part[3]
            counts[key] = counts[key] separator sprintf("%.1f", sum / part[4])
            proportional[key] = part[5]
        }
        key = ""
    }
    /^part: / { close_case() }
    sub(/^desc: Trigger: Client Request: /, "") {
        split($0, part, "|")
        key = "\"call\": \"" part[1] "\", \"population\": \"" part[2] "\""
        sum = 0
        is_library = 0
    }
    /^ob=/ { is_library = $0 ~ /libtarn\.so[^\/]*$/ }
    /^calls=/ {
        getline
        next
    }
    is_library && /^[0-9]+ [0-9]+$/ { sum += $2 }
    END {
        close_case()
        for (i = 1; i <= cases; i++) {
            key = order[i]
            printf "{%s, %s, \"sizes\": [%s], \"library\": [%s]", head, key, sizes[key], counts[key]
            if (proportional[key] != "")
                printf ", \"proportional\": \"%s\"", proportional[key]
            print "}"
        }
    }' >"$scratch/lines"
[ -s "$scratch/lines" ] || { echo 'scale.sh: callgrind has counted nothing' >&2; exit 1; }

# The record has a line for each call.
[ "$mode" != record ] || awk '
    {
        at = index($0, ", \"population\": ")
        call = substr($0, 1, at - 1)
        split(substr($0, at + 16), part, "\"")
        rest = substr($0, at + 18 + length(part[2]))
        gsub(/\.[0-9]/, "", rest)
        if (!(call in beside))
            order[++calls] = call
        beside[call] = beside[call] (beside[call] == "" ? "" : ", ") \
            "\"" part[2] "\": {" substr(rest, 3)
    }
    END {
        for (i = 1; i <= calls; i++)
            print order[i] ", \"beside\": {" beside[order[i]] "}}"
    }' "$scratch/lines" >"$recorded"
sed '1,/^: <<.KNOWN.$/d; /^KNOWN$/,$d' "$0" >"$scratch/known"

result=0
awk -v mode="$mode" -v known_file="$scratch/known" '
    # What stands after "name": in a line of JSON.
    function field(name,    rest) {
        if (index($0, "\"" name "\": ") == 0)
            return ""
        rest = substr($0, index($0, "\"" name "\": ") + length(name) + 4)
        if (rest ~ /^"/) {
            rest = substr(rest, 2)
            return substr(rest, 1, index(rest, "\"") - 1)
        }
        return substr(rest, 2, index(rest, "]") - 2)
    }
    function fail(sentence) {
        failed[++failures] = sentence
    }
    BEGIN { usual_limit = 1.5; limit_beside_lives = 1.2 }
    FILENAME == known_file {
        split($0, part, " *[|] *")
        known[part[1] "|" part[2]] = part[3]
        next
    }
    mode != "known" && FNR == 1 {
        printf "%-38s %-28s %47s %8s\n", "call", "beside", "instructions of the library", "ratio"
    }
    {
        call = field("call")
        population = field("population")
        limit = population == "lives" ? limit_beside_lives : usual_limit
        proportional = field("proportional")
        count = split(field("library"), counts, ", ")
        split(field("sizes"), sizes, ", ")
        most = counts[1]
        for (i = 2; i <= count; i++) {
            if (counts[i] > most)
                most = counts[i]
        }
        ratio = counts[1] > 0 ? most / counts[1] : 1
        key = call "|" population
        counted[key] = 1
        verdict = "flat"
        if (proportional != "") {
            verdict = "proportional to " proportional
            if (key in known)
                fail(key ": is proportional, and in the table of calls that are not flat yet")
        } else if (ratio > limit) {
            verdict = "NOT FLAT"
            if (mode == "known")
                printf "%s | %s | %.1f\n", call, population, ratio
            if (!(key in known))
                fail(key ": " ratio " times what it takes beside the fewest")
            else if (ratio > limit * known[key])
                fail(key ": " ratio " times what it takes beside the fewest, and was " known[key])
        } else if (key in known)
            fail(key ": is flat by now; remove it from the table in this file")
        if (mode != "known") {
            printf "%-38s %-28s", call, population
            for (i = 4; i > count; i--)
                printf " %11s", ""
            for (i = 1; i <= count; i++)
                printf " %11.1f", counts[i]
            printf " %8.2f  %s\n", ratio, verdict
        }
    }
    END {
        for (key in known) {
            if (!(key in counted))
                fail(key ": is in the table of this file, and was not counted")
        }
        for (i = 1; mode == "check" && i <= failures; i++)
            print "FAILED: " failed[i]
        exit mode == "check" && failures > 0
    }' "$scratch/known" "$scratch/lines" || result=$?
exit "$result"

# Calls that are not flat yet: call | population | ratio when that was found out.
: <<'KNOWN'
KNOWN
