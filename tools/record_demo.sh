#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the demo and writes down every driver call, name and result, in order: by the library and by
# the demo itself. Addresses and times are left out, so that two drivers can be compared.
#   tools/record_demo.sh BUILD DRIVER FILE     DRIVER: cuda, or the path of libtarn_sim.so
set -eu
build=$1 driver=$2 file=$3

rm -f "$file"
TARN_DRIVER="$build/lib/libtarn_record.so" TARN_RECORD_DRIVER="$driver" TARN_RECORD_FILE="$file" \
    "$build/bin/demo" >"$file.out"
tail -n 1 "$file.out"
echo "$(wc -l <"$file") driver calls in $file"
