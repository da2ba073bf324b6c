#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs leaky each way, and compares what it and the library write with what is expected.
#   leaks.sh PROGRAM
# Numbers that differ between builds are left out: addresses in files, paths and build ids, and frames of the C
# library. TARN_DRIVER names the driver. The expected text is expected/leaks.txt beside this file.
set -eu
unset TARN_CONF TARN_LEAKS
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# One way; the words behind it are the environment's.
run() {
    way=$1
    shift
    status=0
    echo "== leaky $way $*"
    rm -f "$scratch/leaks"
    env "$@" "$program" $way >"$scratch/printed" 2>"$scratch/written" || status=$?
    sed 's/^/printed: /' "$scratch/printed"
    [ ! -e "$scratch/leaks" ] || sed 's/^/in the file: /' "$scratch/leaks"
    sed -E 's/\+0x[0-9a-f]+/+0x0/' "$scratch/written" | grep -vE '^    (lib|ld-)|^(lib|ld-)[^ ]* is ' |
        sed -E 's/^leaky is .*leaky(, build id .*)?$/leaky is there/' >"$scratch/kept" || :
    if [ "$way" = busy ]; then # what its threads have is another thing each time
        sed -nE 's/(device 0):.*/\1/p; /numbers 1 to 3,/p; /number 4,/p; / (leak_|main)/p' "$scratch/kept"
    else
        cat "$scratch/kept"
    fi
    echo "exit status $status"
}

program=$1
{
    run '' TARN_LEAKS=1
    run '' TARN_LEAKS=0
    run '' TARN_LEAKS=
    run '' TARN_LEAKS=1 TARN_CONF=history_bytes:64K,history_stacks:caller
    run '' TARN_LEAKS=1 TARN_CONF=history_sample_bytes:1K
    run close TARN_LEAKS=1
    run fork TARN_LEAKS=1
    run late TARN_LEAKS=1
    run early TARN_LEAKS=1
    run '' "TARN_LEAKS=$scratch/leaks" | sed -E 's/^(in the file: )(    leaky)\+0x[0-9a-f]+/\1\2+0x0/
        s/^(in the file: leaky is ).*/\1there/; /^in the file:     (lib|ld-)/d; /^in the file: (lib|ld-)/d
        s,TARN_LEAKS=.*/leaks,TARN_LEAKS=FILE,'
    count=0
    while [ "$count" -lt "${TARN_BUSY_RUNS:-20}" ]; do
        count=$((count + 1))
        run busy TARN_LEAKS=1 >"$scratch/busy"
        [ "$count" -gt 1 ] || cp "$scratch/busy" "$scratch/first"
        diff "$scratch/first" "$scratch/busy" || :
    done
    cat "$scratch/first"
} >"$scratch/all"
diff "$here/expected/leaks.txt" "$scratch/all"
