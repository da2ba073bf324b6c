#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scale.sh [--record | --check | --known] [BUILD]
#     Counts the library's instructions of each public call while 1, 100 or 10,000 of something
#     else are there: streams, blocks, graphs, pools. Prints a table, on the simulated driver, of a
#     release build (build/release). Needs valgrind, and its headers when the build is made; exits
#     with 77 where there is none.
#
#     A call is flat if no count is more than 1.5 times the count beside the fewest. Other calls
#     say what they are proportional to. The table at the end of this file has the calls that ought
#     to be flat and are not yet.
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
export TARN_DRIVER="$build/lib/libtarn_sim.so"
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
    BEGIN { limit = 1.5 }
    FILENAME == known_file {
        split($0, part, " *[|] *")
        known[part[1] "|" part[2]] = part[3]
        next
    }
    mode != "known" && FNR == 1 {
        printf "%-38s %-20s %34s %8s\n", "call", "beside", "instructions of the library", "ratio"
    }
    {
        call = field("call")
        population = field("population")
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
            printf "%-38s %-20s", call, population
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
tarn_malloc, grows | streams with memory | 179.1
tarn_block_at | streams with memory | 362.3
tarn_block_set_tag | streams with memory | 335.7
tarn_pool_malloc, grows | streams with memory | 181.0
tarn_pool_reserve | streams with memory | 117.7
tarn_free_on, other stream | streams with memory | 237.6
tarn_free_on, other stream, private | streams with memory | 276.5
tarn_record_stream | streams with memory | 228.0
tarn_free, recorded | streams with memory | 215.9
tarn_record_stream, new stream | streams with memory | 228.0
tarn_malloc, new stream | streams with memory | 146.5
tarn_pool_malloc, new stream | streams with memory | 144.1
tarn_stream_retire | streams with memory | 339.3
tarn_stream_retire, unknown | streams with memory | 397.4
tarn_stream_retire, oldest | streams with memory | 332.1
tarn_begin_allocate_to_pool | streams with memory | 421.5
tarn_end_allocate_to_pool | streams with memory | 516.2
tarn_capture_begin | streams with memory | 347.8
tarn_malloc, in a capture | streams with memory | 173.2
tarn_capture_end | streams with memory | 391.8
tarn_capture_abort | streams with memory | 376.5
tarn_graph_update | streams with memory | 395.7
tarn_graph_destroy, newest | streams with memory | 430.2
tarn_graph_adopt | streams with memory | 508.9
tarn_malloc, adopts a pool | streams with memory | 97.4
tarn_malloc, behind adopted | streams with memory | 121.0
tarn_graph_guard | streams with memory | 191.9
tarn_graph_destroy, guarded | streams with memory | 336.0
tarn_graph_audit | streams with memory | 198.8
tarn_driver_graph_audit | streams with memory | 299.6
tarn_graph_memory | streams with memory | 235.9
tarn_device_graph_memory | streams with memory | 448.3
tarn_pool_destroy, empty | streams with memory | 229.5
tarn_pool_destroy, newest | streams with memory | 111.7
tarn_pool_set_limit | streams with memory | 534.9
tarn_device_mark | streams with memory | 163.4
tarn_device_collect | streams with memory | 151.5
tarn_device_pools | streams with memory | 142.0
tarn_malloc, grows | streams gone | 92.9
tarn_block_at | streams gone | 163.5
tarn_block_set_tag | streams gone | 151.5
tarn_pool_malloc, grows | streams gone | 93.9
tarn_pool_reserve | streams gone | 53.5
tarn_free_on, other stream | streams gone | 107.4
tarn_free_on, other stream, private | streams gone | 124.9
tarn_record_stream | streams gone | 103.1
tarn_free, recorded | streams gone | 97.7
tarn_record_stream, new stream | streams gone | 103.1
tarn_malloc, new stream | streams gone | 67.2
tarn_pool_malloc, new stream | streams gone | 70.7
tarn_stream_retire | streams gone | 132.8
tarn_stream_retire, unknown | streams gone | 156.3
tarn_begin_allocate_to_pool | streams gone | 190.1
tarn_end_allocate_to_pool | streams gone | 232.7
tarn_capture_begin | streams gone | 157.0
tarn_malloc, in a capture | streams gone | 82.7
tarn_capture_end | streams gone | 181.6
tarn_capture_abort | streams gone | 176.6
tarn_graph_update | streams gone | 183.1
tarn_graph_destroy, newest | streams gone | 196.5
tarn_graph_adopt | streams gone | 229.4
tarn_malloc, adopts a pool | streams gone | 44.3
tarn_malloc, behind adopted | streams gone | 58.4
tarn_graph_guard | streams gone | 87.9
tarn_graph_destroy, guarded | streams gone | 153.2
tarn_graph_audit | streams gone | 91.1
tarn_driver_graph_audit | streams gone | 136.6
tarn_graph_memory | streams gone | 107.4
tarn_device_graph_memory | streams gone | 202.1
tarn_checkpoint_take | streams gone | 400.3
tarn_checkpoint_restore | streams gone | 383.6
tarn_checkpoint_destroy, newest | streams gone | 214.5
tarn_pool_destroy, empty | streams gone | 103.8
tarn_pool_destroy, newest | streams gone | 50.8
tarn_pool_set_limit | streams gone | 241.1
tarn_device_mark | streams gone | 74.0
tarn_device_collect | streams gone | 68.7
tarn_pool_blocks | streams gone | 143.8
tarn_device_pools | streams gone | 64.4
tarn_pool_check_live | streams gone | 94.4
tarn_stream_retire | pools | 583.5
tarn_stream_retire, unknown | pools | 680.6
tarn_end_allocate_to_pool | pools | 59.0
tarn_capture_end | pools | 339.4
tarn_capture_abort | pools | 354.4
tarn_graph_update | pools | 382.3
tarn_graph_destroy, newest | pools | 475.0
tarn_graph_adopt | pools | 946.9
tarn_malloc, adopts a pool | pools | 233.1
tarn_malloc, behind adopted | pools | 190.7
tarn_graph_destroy, guarded | pools | 359.3
tarn_driver_graph_audit | pools | 302.6
tarn_graph_memory | pools | 224.3
tarn_device_graph_memory | pools | 814.1
tarn_checkpoint_destroy, newest | pools | 52.8
tarn_pool_destroy, empty | pools | 515.7
tarn_pool_destroy, newest | pools | 252.2
tarn_pool_destroy, oldest | pools | 271.7
tarn_pool_release | pools | 42.4
tarn_free_on, last of released | pools | 26.5
tarn_device_close, again | pools | 140.5
tarn_device_mark | pools | 281.9
tarn_device_collect | pools | 282.3
tarn_pool_reset_peaks | pools | 244.9
tarn_stream_retire | adopted graphs | 72.9
tarn_stream_retire, unknown | adopted graphs | 86.1
tarn_end_allocate_to_pool | adopted graphs | 129.1
tarn_capture_end | adopted graphs | 38.0
tarn_capture_abort | adopted graphs | 64.8
tarn_graph_update | adopted graphs | 64.4
tarn_graph_destroy, newest | adopted graphs | 146.5
tarn_graph_adopt | adopted graphs | 116.7
tarn_malloc, adopts a pool | adopted graphs | 26.5
tarn_malloc, behind adopted | adopted graphs | 42.1
tarn_malloc, behind adopted, oldest | adopted graphs | 93.7
tarn_graph_destroy, guarded | adopted graphs | 111.8
tarn_driver_graph_audit | adopted graphs | 35.4
tarn_graph_memory | adopted graphs | 57.6
tarn_checkpoint_destroy, newest | adopted graphs | 117.0
tarn_pool_destroy, empty | adopted graphs | 73.3
tarn_pool_destroy, newest | adopted graphs | 35.1
tarn_pool_release | adopted graphs | 95.5
tarn_free_on, last of released | adopted graphs | 61.3
tarn_device_close, again | adopted graphs | 266.2
tarn_device_mark | adopted graphs | 28.0
tarn_device_collect | adopted graphs | 31.7
tarn_pool_reset_peaks | adopted graphs | 34.1
tarn_free, oldest | released pools | 198.4
tarn_stream_retire | released pools | 88.9
tarn_stream_retire, unknown | released pools | 97.2
tarn_end_allocate_to_pool | released pools | 236.3
tarn_capture_end | released pools | 60.4
tarn_capture_abort | released pools | 95.9
tarn_graph_update | released pools | 93.6
tarn_graph_destroy, newest | released pools | 185.9
tarn_graph_adopt | released pools | 109.3
tarn_malloc, adopts a pool | released pools | 45.8
tarn_malloc, behind adopted | released pools | 65.9
tarn_graph_destroy, guarded | released pools | 157.6
tarn_driver_graph_audit | released pools | 55.7
tarn_graph_memory | released pools | 44.6
tarn_device_graph_memory | released pools | 101.7
tarn_checkpoint_destroy, newest | released pools | 217.4
tarn_pool_destroy, empty | released pools | 129.6
tarn_pool_destroy, newest | released pools | 63.8
tarn_pool_release | released pools | 187.3
tarn_free_on, last of released | released pools | 124.4
tarn_device_close, again | released pools | 442.8
tarn_device_mark | released pools | 71.2
tarn_device_collect | released pools | 71.3
tarn_pool_reset_peaks | released pools | 61.9
tarn_malloc, grows | pending blocks | 154.1
tarn_block_at | pending blocks | 74.0
tarn_pool_malloc, grows | pending blocks | 152.1
tarn_pool_reserve | pending blocks | 143.5
tarn_malloc, new stream | pending blocks | 78.5
tarn_pool_malloc, new stream | pending blocks | 96.5
tarn_stream_retire | pending blocks | 85.4
tarn_stream_retire, unknown | pending blocks | 84.1
tarn_capture_end | pending blocks | 22.0
tarn_capture_abort | pending blocks | 36.9
tarn_graph_update | pending blocks | 27.3
tarn_graph_destroy, newest | pending blocks | 41.2
tarn_malloc, behind adopted | pending blocks | 33.8
tarn_graph_destroy, guarded | pending blocks | 33.0
tarn_pool_malloc, grows | guarded graphs | 2.7
tarn_pool_reserve | guarded graphs | 2.6
tarn_end_allocate_to_pool | guarded graphs | 14.6
tarn_capture_begin | guarded graphs | 6.9
tarn_capture_end | guarded graphs | 4.6
tarn_capture_abort | guarded graphs | 3.7
tarn_graph_update | guarded graphs | 6.0
tarn_graph_destroy, newest | guarded graphs | 10.1
tarn_graph_destroy, oldest | guarded graphs | 14.3
tarn_graph_adopt | guarded graphs | 12.1
tarn_malloc, adopts a pool | guarded graphs | 2.9
tarn_graph_guard | guarded graphs | 6.9
tarn_graph_destroy, guarded | guarded graphs | 7.7
tarn_graph_audit | guarded graphs | 7.2
tarn_driver_graph_audit | guarded graphs | 8.4
tarn_graph_memory | guarded graphs | 24.6
tarn_pool_malloc, grows | graphs | 9.5
tarn_pool_reserve | graphs | 8.9
tarn_end_allocate_to_pool | graphs | 68.8
tarn_capture_begin | graphs | 30.7
tarn_capture_end | graphs | 19.2
tarn_capture_abort | graphs | 21.7
tarn_graph_update | graphs | 25.7
tarn_graph_destroy, newest | graphs | 46.6
tarn_graph_destroy, oldest | graphs | 77.3
tarn_graph_adopt | graphs | 56.4
tarn_malloc, adopts a pool | graphs | 10.3
tarn_graph_guard | graphs | 30.8
tarn_graph_destroy, guarded | graphs | 34.5
tarn_graph_audit | graphs | 32.0
tarn_driver_graph_audit | graphs | 38.0
tarn_graph_memory | graphs | 119.0
tarn_pool_malloc, grows | graphs with outputs | 9.6
tarn_pool_reserve | graphs with outputs | 8.9
tarn_stream_retire | graphs with outputs | 175.2
tarn_stream_retire, unknown | graphs with outputs | 209.1
tarn_end_allocate_to_pool | graphs with outputs | 68.8
tarn_capture_begin | graphs with outputs | 30.7
tarn_malloc, in a capture | graphs with outputs | 52.5
tarn_capture_end | graphs with outputs | 60.7
tarn_capture_abort | graphs with outputs | 93.4
tarn_graph_update | graphs with outputs | 60.4
tarn_graph_destroy, newest | graphs with outputs | 46.7
tarn_graph_destroy, oldest | graphs with outputs | 77.3
tarn_graph_adopt | graphs with outputs | 56.4
tarn_malloc, adopts a pool | graphs with outputs | 10.4
tarn_graph_guard | graphs with outputs | 48.6
tarn_graph_destroy, guarded | graphs with outputs | 34.5
tarn_graph_audit | graphs with outputs | 50.5
tarn_driver_graph_audit | graphs with outputs | 52.8
tarn_graph_memory | graphs with outputs | 130.0
tarn_block_at | streams recorded | 74.1
tarn_free_on, other stream | streams recorded | 19.6
tarn_free_on, other stream, private | streams recorded | 23.3
tarn_record_stream | streams recorded | 36.5
tarn_record_stream, new stream | streams recorded | 36.5
tarn_stream_retire | streams recorded | 189.0
tarn_stream_retire, unknown | streams recorded | 226.4
tarn_stream_retire, oldest | streams recorded | 211.5
tarn_capture_abort | streams recorded | 27.8
tarn_block_at | live blocks | 74.0
tarn_stream_retire | live blocks | 272.4
tarn_stream_retire, unknown | live blocks | 321.0
tarn_capture_end | live blocks | 24.8
tarn_capture_abort | live blocks | 76.7
tarn_graph_update | live blocks | 21.0
tarn_stream_retire | live chunks | 264.0
tarn_stream_retire, unknown | live chunks | 309.3
tarn_capture_end | live chunks | 24.7
tarn_capture_abort | live chunks | 74.0
tarn_graph_update | live chunks | 21.1
tarn_graph_destroy, newest | live chunks | 2.1
tarn_graph_destroy, guarded | live chunks | 1.8
tarn_block_at | free blocks | 146.6
tarn_stream_retire | free blocks | 398.1
tarn_stream_retire, unknown | free blocks | 475.8
tarn_capture_end | free blocks | 49.2
tarn_capture_abort | free blocks | 114.3
tarn_graph_update | free blocks | 41.4
KNOWN
