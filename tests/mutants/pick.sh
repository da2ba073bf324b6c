#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pick.sh [COUNT [BASE]] -- prints the names of COUNT mutants (20), first of those that a change
# since BASE (HEAD~1) touches: see mutants.py.
exec python3 -B "$(dirname "$0")/mutants.py" --pick "$@"
