#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the contract on the simulator that TARN_DRIVER names, and compares its answers with those of
# an H200.
#   check.sh PROGRAM OUTPUT
# PROGRAM is tarn_contract; its lines are kept in OUTPUT. Exit status 0: every case holds, and its
# answers are the recorded ones, or those of its exception.
set -u
here=$(cd "$(dirname "$0")" && pwd)
"$1" >"$2"
status=$?
grep -v '^ok \|^#' "$2"
"$here/compare.sh" "$2" sim || status=1
exit $status
