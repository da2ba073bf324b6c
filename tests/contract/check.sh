#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the contract on the driver that TARN_DRIVER names, and compares its lines with those that an
# H200's driver gave.
#   check.sh PROGRAM OUTPUT
# PROGRAM is tarn_contract; its lines are kept in OUTPUT. Exit status 0: every case holds, and its
# line is the recorded one, but for the exceptions.
set -u
here=$(cd "$(dirname "$0")" && pwd)
"$1" >"$2"
status=$?
grep -v '^ok \|^#' "$2"
"$here/compare.sh" "$2" "$here/recorded/h200.txt" "$here/recorded/exceptions.txt" || status=1
exit $status
