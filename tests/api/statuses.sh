#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# statuses.sh SUITE... -- prints every public function with the statuses that its header documents, and
# fails when one of them was answered in no suite of tests/api, or another one was. The suites have
# noted their answers in statuses_<suite>.txt of the current folder (support/status.c). What cannot be
# provoked stands in statuses.txt with the reason.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C
include=$here/../../include/tarn
noted=
for suite; do
    [ -e "statuses_$suite.txt" ] || { echo "$suite has noted nothing: run it first"; exit 1; }
    noted="$noted statuses_$suite.txt"
done
cat $noted >statuses.txt
exec awk -f "$here/statuses.awk" "$include/status.h" "$here/statuses.txt" statuses.txt \
    "$include"/audit.h "$include"/checkpoint.h "$include"/compare.h "$include"/device.h "$include"/graph.h \
    "$include"/graph_memory.h "$include"/memory.h "$include"/pool.h "$include"/pressure.h "$include"/stats.h
