#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mutants.sh [NAME... | --check | --mend] -- breaks one rule at a time: see mutants.py.
exec python3 -B "$(dirname "$0")/mutants.py" "$@"
