#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tidy.sh [ROOT] -- checks the rules of the source tree that no compiler checks. Each violation is a
# sentence that begins with its file and line; the exit status is 1 when there is one.
#
#   includes    layers include downwards, in quotes; public headers include nothing of ours; every folder
#               of src has a rank, which is its place in src/CMakeLists.txt; the command includes of src
#               what reads histories (rules.awk)
#   driver      driver functions are named, whole or pasted, in driver, in nodes, which asks it what graphs are, and in the simulator
#               (rules.awk)
#   calls       host memory comes from base/host.c; no unbounded string functions (rules.awk)
#   environment it is read by base/environment.h alone, in src, in the command and in the recorder (rules.awk)
#   license     every source file has its SPDX line among the first three
#   length      no source file has more than 700 lines; none of src or the command more than 600 without a
#               reason in long.txt
#   unfinished  no notes to finish something later
#   listed      every source and every test suite is in its CMakeLists.txt
#   tested      every library source has a suite in tests/unit or a reason in untested.txt, every source of the
#               command one in tests/command, and every public function occurs in tests/api
#   lifetimes   every cell of the table in docs/lifetimes.md says something, has a sentence in the section of its
#               operation, and tests in tests/api/lifetimes.txt. Each of these is in tests/api/test_lifetimes_*.c;
#               every test there is named by a cell
#   named       every file of src and every function tn_* that ARCHITECTURE.md, docs/driver.md, docs/internals.md
#               and docs/reader.md name is there; in its file, where the file's name stands before it
#   words       ARCHITECTURE.md has at most 200 lines without its table of words, and each word of a struct's name
#               has a row there (words.awk)
#   invariants  every invariant tag (a header comment's line `V1  text` or `SC1  text`) occurs in a .c
#               file beside it, where it is checked, and in a test, where it is broken; no two have one
#               tag. A tag of the simulator's is checked anywhere in src/sim, and begins with S and
#               one more letter; others have one letter
#   size        the tree has at most 12 MB, besides the recorded traces (docs/traces.md has their limit)
#   contracts   heap, claims, pools, graphs and checkpoint have an assertion for two functions, and struct tarn_pool
#               at most 35 fields (contracts.awk)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"
export LC_ALL=C
found=$(mktemp)
long=$(mktemp)
trap 'rm -f "$found" "$long"' EXIT

report() { echo "$*" >>"$found"; }

all=$(find . \( -path ./build -o -path ./.git \) -prune -o -type f -print | sed 's|^\./||' | sort)
c_files=$(printf '%s\n' "$all" | grep -E '^(include|src|command|tests|samples|bench|tools)/.*\.[ch]$' || :)
sources=$(printf '%s\n' "$all" |
    grep -E '\.(c|h|cpp|py|sh|awk|cmake|cmake\.in|map|ptx)$|(^|/)CMakeLists\.txt$|^(Makefile|\.ci/run)$')

# The folders of the library in their order, lowest first.
folders=$(awk '{ sub(/#.*/, "") } /set\(TARN_SOURCES/ { on = 1 } on { print } on && /\)/ { exit }' \
    src/CMakeLists.txt |
    grep -oE '[a-z]+/' | tr -d / | awk '!seen[$0]++' | tr '\n' ' ' || :)
awk -v folders="$folders" -f "$here/rules.awk" $c_files >>"$found"

awk 'function missing() { if (file != "" && !seen) print file ":1: has no SPDX line" }
    FNR == 1 { missing(); file = FILENAME; seen = 0 }
    FNR <= 3 && /SPDX-License-Identifier: Apache-2\.0/ { seen = 1 }
    FNR == 701 { print FILENAME ":701: is longer than 700 lines; is it still one thing?" }
    END { missing() }' $sources >>"$found"

# Paths of long.txt, where a reason follows.
awk '$1 ~ /^(src|command)\/.*:$/ && NF > 1 { sub(/:$/, "", $1); print $1 }' tests/tidy/long.txt 2>/dev/null |
    sort >"$long" || :
longer() { awk 'FNR == 601 && FILENAME ~ /^(src|command)\// { print FILENAME }' $c_files | sort; }
for file in $(longer | comm -23 - "$long"); do
    report "$file:601: is longer than 600 lines, and has no reason in tests/tidy/long.txt"
done
for file in $(longer | comm -13 - "$long"); do
    report "tests/tidy/long.txt:1: names $file, which is no longer than 600 lines"
done

grep -nwE 'TO[D]O|FIX[M]E|X[X]X' $sources /dev/null |
    sed -E 's/^([^:]*:[0-9]+):.*/\1: has a note of unfinished work/' >>"$found" || :

# listed, tested
for file in $(printf '%s\n' "$c_files" | grep -E '^src/.*\.c$' || :); do
    grep -qE "^([^#]*[ (])?${file#src/}([ )]|\$)" src/CMakeLists.txt ||
        report "$file:1: is not listed in src/CMakeLists.txt"
    case $file in src/sim/*) continue ;; esac
    name=${file##*/}
    [ -e "tests/unit/test_$name" ] ||
        grep -qE "^$file: +[^ ]" tests/tidy/untested.txt 2>/dev/null ||
        report "$file:1: has no tests/unit/test_$name and no reason in tests/tidy/untested.txt"
done
for file in $(printf '%s\n' "$c_files" | grep -E '^command/.*\.c$' || :); do
    name=${file#command/}
    grep -qE "^([^#]*[ (])?$name([ )]|\$)" command/CMakeLists.txt ||
        report "$file:1: is not listed in command/CMakeLists.txt"
    [ -e "tests/command/test_$name" ] ||
        grep -qE "^$file: +[^ ]" tests/tidy/untested.txt 2>/dev/null ||
        report "$file:1: has no tests/command/test_$name and no reason in tests/tidy/untested.txt"
done
for file in $(sed -nE 's/^((src|command)[^:]*):.*/\1/p' tests/tidy/untested.txt 2>/dev/null || :); do
    [ -e "$file" ] || report "tests/tidy/untested.txt:1: names $file, which does not exist"
done
for file in $(printf '%s\n' "$c_files" | grep -E '^tests/[^/]+/test_.*\.c$' || :); do
    grep -qE "^([^#]*[ (])?${file#tests/}([ )]|\$)" tests/CMakeLists.txt ||
        report "$file:1: is not listed in tests/CMakeLists.txt"
done

# A public function is the last word before the first parenthesis after TARN_API.
headers=$(printf '%s\n' "$c_files" | grep -E '^include/tarn/.*\.h$' | grep -v '/sim\.h$' || :)
for header in $headers; do
    for function in $(grep -v '^#' "$header" | tr '\n' ' ' | awk '{
        count = split($0, part, /TARN_API /)
        for (i = 2; i <= count; i++) {
            text = substr(part[i], 1, index(part[i], "(") - 1)
            sub(/.*[ *]/, "", text)
            print text
        }
    }'); do
        grep -rqw -- "$function" tests/api 2>/dev/null || {
            line=$(grep -n -- "[ *]$function(" "$header" | grep -vE ':( \*|#)' | sed 's/:.*//;q')
            report "$header:$line: $function occurs in no file of tests/api"
        }
    done
done

# lifetimes
awk -f "$here/lifetimes.awk" docs/lifetimes.md tests/api/lifetimes.txt tests/api/test_lifetimes_*.c >>"$found"

# named; the table of the simulator's files names them from src/sim on
for page in ARCHITECTURE.md docs/driver.md docs/internals.md docs/reader.md; do
    [ -e "$page" ] || continue
    grep -noE '`[a-z]+(/[a-z_]+)+\.[ch]`' "$page" | tr -d '`' | while IFS=: read -r line name; do
        case " $folders" in *" ${name%%/*} "*) ;; *) continue ;; esac
        [ -e "src/$name" ] || [ -e "src/sim/$name" ] ||
            report "$page:$line: names $name, which does not exist"
    done
    # Functions that a page names behind their file: `pools/free.c` `free_block`, `tn_pool_free`.
    grep -noE '`[a-z]+(/[a-z_]+)+\.[ch]`( `[a-z_]+`,?)+' "$page" | tr -d '`,' |
        while IFS=: read -r line names; do
            name=${names%% *}
            [ -e "src/$name" ] || continue
            for function in ${names#* }; do
                grep -qw -- "$function" "src/$name" ||
                    report "$page:$line: names $function of $name, where it is not"
            done
        done
    grep -noE '`tn_[a-z_]+`' "$page" | tr -d '`' | while IFS=: read -r line name; do
        grep -rqw -- "$name" src || report "$page:$line: names $name, which occurs nowhere in src"
    done
done

# words
library=$(printf '%s\n' "$c_files" | grep -E '^src/' | grep -v '^src/sim/' || :)
awk -f "$here/words.awk" ARCHITECTURE.md $library >>"$found"

# contracts
stating=$(printf '%s\n' "$c_files" | grep -E '^src/(heap|claims|pools|graphs|checkpoint)/' || :)
awk -f "$here/contracts.awk" $stating /dev/null >>"$found"

# invariants
for header in $(printf '%s\n' "$c_files" | grep -E '^src/.*\.h$' || :); do
    case $header in
    src/sim/*) checkers=src/sim where="no .c file of src/sim" ;;
    *) checkers="${header%/*}/*.c src/observe/pool_check.c src/observe/check.c"
        where="no .c file beside it, nor in a check.c" ;;
    esac
    grep -noE '^ *(/\*|\*)? *[A-Z]+[0-9]+  +[^ ]' "$header" |
        sed -E 's/^([0-9]+):[^A-Z]*([A-Z]+[0-9]+) .*/\1 \2/' | while read -r line tag; do
        case $header:$tag in
        src/sim/*:S[A-Z][0-9]*) ;;
        src/sim/*) report "$header:$line: invariant $tag of the simulator begins with no S of its own" ;;
        *:[A-Z][0-9]*) ;;
        *) report "$header:$line: invariant $tag has more than one letter" ;;
        esac
        # $checkers is split into its words.
        grep -rqw --include='*.c' -- "$tag" $checkers 2>/dev/null ||
            report "$header:$line: invariant $tag is checked in $where"
        grep -rqw --include='*.c' -- "$tag" tests ||
            report "$header:$line: invariant $tag occurs in no test"
    done
done

for header in $(printf '%s\n' "$c_files" | grep -E '^src/.*\.h$' || :); do
    grep -noE '^ *(/\*|\*)? *[A-Z]+[0-9]+  +[^ ]' "$header" |
        sed -E "s|^([0-9]+):[^A-Z]*([A-Z]+[0-9]+) .*|\2 $header:\1|"
done | sort | awk '$1 == tag { print $2 ": invariant " tag " is another one at " place }
    { tag = $1; place = $2; sub(/:.*/, "", place) }' >>"$found"

# Outside git all files are the tree's.
bytes=$( (git ls-files 2>/dev/null || printf '%s\n' "$all") | grep -v '^bench/traces/' | xargs cat | wc -c)
[ "$bytes" -le 12500000 ] ||
    report "bench:1: the tree has $bytes bytes without bench/traces; what can be compressed, derived or left out?"

sort -t: -k1,1 -k2,2n "$found"
count=$(wc -l <"$found")
echo "tidy: $(printf '%s\n' "$sources" | wc -l) files, $((count)) violations"
[ "$count" -eq 0 ]
