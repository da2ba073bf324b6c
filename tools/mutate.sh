#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mutants that nobody chose: see tests/mutants/sample.py, whose arguments these are. Needs Python 3 with venv; the first call
# installs universalmutator, and what that imports without saying so,, into build/mutate/venv.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/build/mutate/venv
[ -x "$venv/bin/mutate" ] || {
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet universalmutator==1.14.1 importlib_resources==7.1.0
}
exec "$venv/bin/python" -B "$root/tests/mutants/sample.py" "$@"
