#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aarch64.sh [FOLDER] -- gets Debian's unit test framework Check for 64-bit ARM, so that tests can be built for it on
# another machine: its packages are unpacked in FOLDER, build/aarch64-root if not told. Nothing of the system changes, and no rights are
# needed: an index of packages of its own lies in that folder, too. Does nothing where it is there already.
set -eu
root=${1:-$(cd "$(dirname "$0")/.." && pwd)/build/aarch64-root}
[ ! -e "$root/usr/lib/aarch64-linux-gnu/libcheck.a" ] || exit 0
for command in apt-get dpkg dpkg-deb; do
    command -v $command >/dev/null 2>&1 || {
        echo "aarch64.sh: there is no $command; unpack Check for aarch64, and libsubunit, in $root" >&2
        exit 1
    }
done
state=$root/apt
mkdir -p "$state/lists/partial" "$state/archives/partial"
cd "$state"
own=$(dpkg --print-architecture)
apt() {
    apt-get -q -o APT::Architecture="$own" -o APT::Architectures::="$own" \
        -o APT::Architectures::=arm64 -o Dir::State::lists="$state/lists" -o Dir::Cache="$state" \
        -o Dir::State::status=/var/lib/dpkg/status -o Debug::NoLocking=1 \
        -o APT::Sandbox::User="$(id -un)" "$@"
}
apt update
apt download check:arm64 libsubunit-dev:arm64
for package in *.deb; do
    dpkg-deb -x "$package" "$root"
done
rm -rf "$state"
