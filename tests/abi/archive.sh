#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# archive.sh ARCHIVE INCLUDE READELF CC -- whether the objects of libtarn.a are machine code alone: another compiler than
# the one that made them refuses what is kept for optimising at link time. They are linked without that, and by each
# other gcc that is installed.
set -eu
archive=$1 include=$2 readelf=$3 cc=$4
source=$(cd "$(dirname "$0")" && pwd)/consumer/main.c
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$readelf" -SW "$archive" >"$scratch/sections"
if grep -q '\.gnu\.\(lto\|debuglto\)_' "$scratch/sections"; then
    echo "$archive has sections for optimising at link time"
    exit 1
fi
# Of each object the first section of code; one that is empty has the size 0.
grep -E '^File: |^ *\[ *[0-9]+\] \.text ' "$scratch/sections" | sed 's/^ *\[ *\([0-9]*\)\]/\1/' | awk '
    /^File: / { file = $2; files++; next }
    $6 !~ /^0*$/ { filled[file] = 1 }
    END { for (name in filled) count++
          if (files == 0 && count > 0) files = count # one object has no heading
          print files + 0, "objects,", count + 0, "with machine code"
          exit !(files > 0 && files == count) }'

for other in "$cc" $(ls /usr/bin/gcc-[0-9]* /usr/bin/clang /usr/bin/clang-[0-9]* 2>/dev/null || :); do
    "$other" -dumpversion >/dev/null 2>&1 || continue
    case $other in
    "$cc") options= ;;
    *) [ "$("$other" -dumpmachine)" = "$("$cc" -dumpmachine)" ] || continue ;;
    esac
    "$other" "$source" -I"$include" "$archive" -pthread -ldl -o "$scratch/program"
    "$scratch/program" >/dev/null
    echo "linked by $other"
done
"$cc" -fno-lto "$source" -I"$include" "$archive" -pthread -ldl -o "$scratch/program"
"$scratch/program"
