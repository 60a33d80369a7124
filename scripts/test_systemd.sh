#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Installs siwatch by hand in a container with a systemd of its own, as scripts/test_systemd_inside.sh says. Ends with the number of
# sentences that do not hold.
#
#   scripts/test_systemd.sh SIWATCH SIWATCH-SIMULATOR
#
# The container sees the two programs, the libraries of Swift that they need, and copies of the pages and files that it installs.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
programs="$1 $2"
site="$root/.build/systemd/site"

# Folders of libraries that are no part of the system.
libraries() {
    ldd $programs | awk '$3 ~ /^\// && $3 !~ /^\/(usr\/)?lib/ { sub(/\/[^\/]*$/, "", $3); print "--bind-ro=" $3 }' | sort -u
}

rm -rf "$site"
mkdir -p "$site/.build"
cp -r "$root/README.md" "$root/docs" "$root/etc" "$root/systemd" "$root/scripts" "$site"
cp "$1" "$site/.build/siwatch"
cp "$2" "$site/siwatch-simulator"
cp "$root/scripts/test_systemd_inside.sh" "$site/inside.sh"
exec "$root/scripts/boot_debian.sh" "$site" $(libraries)
