#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the contract on the strict simulator: where a program is wrong and the driver lets it pass,
# the strict simulator does not, so those cases and no others differ, each in the way that is
# recorded.
#   strict.sh PROGRAM OUTPUT [update]
# PROGRAM is tarn_contract. `update` writes the record anew. Exit status 0: they are the recorded
# ones.
set -u
here=$(cd "$(dirname "$0")" && pwd)
TARN_SIM_STRICT=1 "$1" >"$2.all"
# Where in a case's set-up the difference was met is no part of it.
"$here/lines.sh" "$2.all" | grep -v '^ok ' | sed 's/ in the set-up, [a-z_]*\.c:[0-9]*//' >"$2"
if [ "${3:-}" = update ]; then
    cp "$2" "$here/recorded/strict.txt"
fi
diff "$here/recorded/strict.txt" "$2" || exit 1
echo "$(wc -l <"$2") cases are stricter, as recorded"
