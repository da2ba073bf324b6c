#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# privileged.sh PROGRAM EVIL SIMULATOR RECORDER -- runs a program with Tarn as set-user-id of root, for another user whose
# environment names a library to load, options, files to write and settings of the simulator. None may have an effect.
# The same program as that user's own shows that each would have had one.
# Exit status 77: it cannot be run here, and why.
set -eu
program=$1 evil=$2 simulator=$3 recorder=$4
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip 'a set-user-id program of another user needs root to make it'
command -v setpriv >/dev/null || skip 'there is no setpriv (package util-linux)'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
mkdir -m 1777 "$scratch/files"
cp "$program" "$scratch/plain"
cp "$program" "$scratch/privileged"
cp "$evil" "$scratch/evil.so"
cp "$simulator" "$scratch/libtarn_sim.so"
cp "$recorder" "$scratch/libtarn_record.so"
chmod 755 "$scratch/plain" "$scratch"/*.so
chown 0:0 "$scratch/privileged"
chmod 4755 "$scratch/privileged"

# run PROGRAM VARIABLE=VALUE...: what it prints, and then the files that were written.
run() {
    name=$1
    shift
    rm -f "$scratch"/files/*
    (cd "$scratch/files" &&
        setpriv --reuid 65534 --regid 65534 --clear-groups env "$@" \
            TARN_SIM_DEVICES=3 TARN_SIM_NO_SUCH_SETTING=1 TARN_LOG=1 \
            TARN_RECORD_DRIVER="$scratch/libtarn_sim.so" TARN_RECORD_FILE="$scratch/files/calls" \
            TARN_RECORD_TIMES="$scratch/files/times" \
            "../$name" "$scratch/libtarn_sim.so" "$scratch/libtarn_record.so" 2>&1)
    ls "$scratch/files"
}
run privileged TARN_DRIVER="$scratch/evil.so" >"$scratch/first" ||
    skip "the program does not run: $(cat "$scratch/first")"
grep -q 'more rights: yes' "$scratch/first" ||
    skip 'a set-user-id program gets no rights here (mounted nosuid, or no_new_privs)'
run privileged TARN_CONF='no such option' >"$scratch/second"
run plain TARN_DRIVER="$scratch/evil.so" >"$scratch/third"
run plain TARN_CONF='no such option' >"$scratch/fourth"

failures=0
expect() { # is|isnt FILE TEXT
    if grep -q -- "$3" "$scratch/$2"; then found=is; else found=isnt; fi
    [ "$found" = "$1" ] && return
    echo "$2: '$3' $1 expected to be there:"
    sed 's/^/    /' "$scratch/$2"
    failures=$((failures + 1))
}
expect is third 'loaded: what the environment names'
expect is third 'devices: 3'
expect is third 'tarn: TARN_ERR_'
expect is third 'TARN_SIM_NO_SUCH_SETTING'
expect is third '^calls$'
expect is third '^times$'
expect is fourth 'open: TARN_ERR_INVALID_ARGUMENT'
for file in first second; do
    expect isnt $file 'loaded: what the environment names'
    expect isnt $file 'open: TARN_ERR_INVALID_ARGUMENT'
    expect isnt $file 'tarn: TARN_ERR_'
    expect isnt $file 'TARN_SIM_NO_SUCH_SETTING'
    expect is $file 'devices: 1'
    expect isnt $file 'devices: 3'
    expect isnt $file '^calls$'
    expect isnt $file '^times$'
done
cat "$scratch/first"
[ "$failures" = 0 ]
