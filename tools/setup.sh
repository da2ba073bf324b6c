#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian or Ubuntu packages that building and testing need, where any is missing.
# TARN_NO_SETUP=1 skips it: then what is missing is for you to provide.
set -eu

packages='gcc g++ make cmake ninja-build pkg-config check valgrind'
commands='cc c++ make cmake ninja pkg-config valgrind'

[ "${TARN_NO_SETUP:-0}" != 1 ] || exit 0

if ! command -v dpkg-query >/dev/null 2>&1; then
    missing=
    for command in $commands; do
        command -v "$command" >/dev/null 2>&1 || missing="$missing $command"
    done
    if [ -n "$missing" ]; then
        echo "Tarn needs these commands, which were not found:$missing" >&2
        echo "and the unit test framework Check with its pkg-config file. Install them with your" \
            "system's package manager." >&2
        exit 1
    fi
    exit 0
fi

# A package may be there under another name that provides it, as pkgconf does pkg-config.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Provides}\n' |
    sed -n 's/^installed //p' | sed 's/([^)]*)//g' | tr ', ' '\n\n')
missing=
for package in $packages; do
    printf '%s\n' "$installed" | grep -qxF "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "Missing packages:$missing"
install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    as_root='env DEBIAN_FRONTEND=noninteractive'
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root='sudo env DEBIAN_FRONTEND=noninteractive'
else
    echo "Install them, as root, with: apt-get update && $install" >&2
    exit 1
fi
# An index that cannot be refreshed may still do.
$as_root apt-get update -q || echo "apt-get update failed; trying with the index that is there" >&2
if ! $as_root $install; then
    echo "Installation failed. Install them, as root, with: apt-get update && $install" >&2
    exit 1
fi
