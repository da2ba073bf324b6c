#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the contract on the driver that TARN_DRIVER names, where its lines cannot be those of an
# H200: a sanitizer takes addresses that cases ask for.
#   holds.sh PROGRAM OUTPUT
# PROGRAM is tarn_contract; its lines are kept in OUTPUT. Exit status 0: every case that is recorded
# ran, and holds.
set -u
here=$(cd "$(dirname "$0")" && pwd)
"$1" >"$2"
status=$?
grep -v '^ok \|^#' "$2"
for source in h200 "$2"; do
    "$here/lines.sh" "$source" >"$2.lines" || status=1
    cut -d' ' -f2 "$2.lines" | LC_ALL=C sort >"$2.${source##*/}.names"
done
missing=$(LC_ALL=C comm -23 "$2.h200.names" "$2.${2##*/}.names")
if [ -n "$missing" ]; then
    echo "cases that are recorded did not run:" $missing
    status=1
fi
echo "$(grep -c '^ok ' "$2") cases hold"
exit $status
