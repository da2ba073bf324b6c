#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh check|update NM LIBTARN   compares libtarn.so's exports with symbols.txt, or writes it
# symbols.sh simulator NM LIBTARN_SIM  looks for every function of src/abi and of tarn/sim.h
set -eu
mode=$1 nm=$2 library=$3
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
export LC_ALL=C

exports() { "$nm" -D --defined-only "$library" | awk '$2 != "A" { print $NF }' | sort; }

case $mode in
update)
    exports >"$here/symbols.txt"
    ;;
check)
    exports | diff -u "$here/symbols.txt" - || {
        echo "libtarn.so does not export what tests/abi/symbols.txt lists. Where that is meant:"
        echo "cmake --build --preset dev --target abi_update"
        exit 1
    }
    ;;
simulator)
    # A driver row is X(name, symbol, version, ...) in one of the first two lists, wrapped anywhere.
    wanted=$({
        sed '/define TN_CUDA_PROCESS_FUNCTIONS/,/^$/d' "$root/src/abi/functions.h" | tr -d '\\\n' |
            grep -oE 'X\( *cu[A-Za-z0-9_]+, *cu[A-Za-z0-9_]+, *[0-9]+' |
            sed 's/.*, *\(cu.*\),.*/\1/'
        tr '\n' ' ' <"$root/include/tarn/sim.h" | grep -oE 'TARN_SIM_API [^(]*\(' |
            grep -oE 'tarn_sim_[a-z_]+\($' | tr -d '('
    } | sort)
    missing=$(exports | { printf '%s\n' "$wanted" | comm -23 - /dev/fd/3; } 3<&0)
    [ -z "$missing" ] || {
        echo "libtarn_sim.so does not export:" $missing
        exit 1
    }
    echo "$(printf '%s\n' "$wanted" | wc -l) functions"
    ;;
esac
