#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mutants that nobody chose: see tests/mutants/random.py, whose arguments these are. Needs Python 3 with venv; the first call
# installs universalmutator for itself alone, into build/mutate/venv.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/build/mutate/venv
[ -x "$venv/bin/mutate" ] || {
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet universalmutator==1.14.1
}
exec "$venv/bin/python" -B "$root/tests/mutants/random.py" "$@"
