#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian or Ubuntu packages that building and testing need, where any is missing.
# "tools/setup.sh ci" does so for the stages of CI that "make test" does not have, too.
# TARN_NO_SETUP=1 skips it: then what is missing is for you to provide.
set -eu

# A package that has other names elsewhere: name|name; the first that the system knows is installed.
packages='gcc g++ make cmake ninja-build pkg-config check valgrind python3'
commands='cc c++ make cmake ninja pkg-config valgrind python3'
case "${1:-}" in
'') ;;
ci)
    packages="$packages clang libclang-rt-dev|libclang-rt-14-dev|libclang-common-14-dev"
    packages="$packages clang-format-14 spin gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    packages="$packages qemu-user|qemu-user-static libdw-dev python3-prometheus-client"
    packages="$packages zlib1g-dev libsqlite3-dev golang-go chromium"
    commands="$commands clang clang-format-14 spin aarch64-linux-gnu-gcc qemu-aarch64"
    ;;
*)
    echo "usage: tools/setup.sh [ci]" >&2
    exit 2
    ;;
esac

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
for names in $packages; do
    names=$(echo "$names" | tr '|' ' ')
    for package in $names; do
        printf '%s\n' "$installed" | grep -qxF "$package" && continue 2
    done
    missing="$missing${missing:+ }$(echo "$names" | tr ' ' '|')"
done
[ -n "$missing" ] || exit 0

# The command that installs what is missing; the names are those that the index has by then.
choose() {
    install='apt-get install -y --no-install-recommends'
    for names in $missing; do
        names=$(echo "$names" | tr '|' ' ')
        chosen=${names%% *}
        for package in $names; do
            if apt-cache show "$package" >/dev/null 2>&1; then
                chosen=$package
                break
            fi
        done
        install="$install $chosen"
    done
}

echo "Missing packages: $missing"
choose
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
choose
if ! $as_root $install; then
    echo "Installation failed. Install them, as root, with: apt-get update && $install" >&2
    exit 1
fi
