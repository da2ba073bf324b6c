#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pick.sh [COUNT [BASE]] -- prints mutants for a run that has no time for all: those that break a file which
# differs from BASE (HEAD~1 if not told), or that differ themselves, and of all others enough to be COUNT (20).
# Which others, the commit decides: so a run can be repeated, and the next one has others. Exit status 1: a patch
# does not apply to the sources as they are; all are looked at.
set -eu
cd "$(dirname "$0")/../.."
export LC_ALL=C
count=${1:-20}
base=${2:-HEAD~1}
commit=$(git rev-parse HEAD)
bad=0
for patch in tests/mutants/*.patch; do
    git apply --check --unidiff-zero "$patch" 2>/dev/null || {
        echo "$patch does not apply" >&2
        bad=1
    }
done
[ "$bad" = 0 ] || exit 1
changed=$(git diff --name-only "$base" -- 2>/dev/null || git ls-files)
for patch in tests/mutants/*.patch; do
    for file in "$patch" $(sed -n 's|^+++ b/||p' "$patch"); do
        if printf '%s\n' "$changed" | grep -qxF "$file"; then
            echo "0 $patch"
            continue 2
        fi
    done
    echo "1$(printf '%s' "$commit $patch" | cksum | cut -d' ' -f1) $patch"
done | sort | head -n "$count" | cut -d' ' -f2
