#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names every C file that "make format" would change. Versions of clang-format differ in what they make of a file:
# the one that counts is 14, which Debian 12 has. Tables are fenced off by "// clang-format off".
set -eu
cd "$(dirname "$0")/.."
format=${CLANG_FORMAT:-clang-format-14}
"$format" --version | grep -q ' version 14\.' || { echo "$format is not clang-format 14" >&2; exit 1; }
failures=0
for file in $(git ls-files -co --exclude-standard '*.c' '*.h'); do
    [ -e "$file" ] || continue
    "$format" --dry-run -Werror "$file" >/dev/null 2>&1 || {
        echo "$file is not as make format leaves it"
        failures=$((failures + 1))
    }
done
echo "$failures files are to be formatted"
[ "$failures" = 0 ]
