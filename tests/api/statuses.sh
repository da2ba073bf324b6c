#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# statuses.sh [--but STATUS] SUITE... -- prints every public function with the statuses that its header documents, and
# fails when one of them was answered in no suite of tests/api, or another one was. The suites have
# noted their answers in statuses_<suite>.txt of the current folder (support/status.c). What cannot be
# provoked stands in statuses.txt with the reason; STATUS, or "FUNCTION STATUS", cannot in this build. The headers are all public
# ones that declare functions.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C
include=$here/../../include/tarn
but=
if [ "$1" = --but ]; then
    but=$2
    shift 2
fi
noted=
for suite; do
    [ -e "statuses_$suite.txt" ] || { echo "$suite has noted nothing: run it first"; exit 1; }
    noted="$noted statuses_$suite.txt"
done
cat $noted >statuses.txt
headers=
for header in "$include"/*.h; do
    case ${header##*/} in
    status.h | sim.h | core.h) continue ;; # read first; the simulator's own; functions of the others again
    esac
    ! grep -q '^TARN_API' "$header" || headers="$headers $header"
done
exec awk -v but="$but" -f "$here/statuses.awk" "$include/status.h" "$here/statuses.txt" statuses.txt $headers
