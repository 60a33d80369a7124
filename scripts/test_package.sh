#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Installs, upgrades, removes and purges a package of siwatch in a container with a systemd of its own, as
# scripts/test_package_inside.sh says. Ends with the number of sentences that do not hold.
#
#   scripts/test_package.sh PACKAGE.deb
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
site="$root/.build/systemd/package-site"

rm -rf "$site"
mkdir -p "$site/docs"
cp "$1" "$site/siwatch.deb"
# An older release's database.
cp "$root/Tests/StoreTests/Migration/Frozen/v1.sqlite" "$site"
cp "$root/docs/postgresql.md" "$site/docs"
cp -r "$root/scripts" "$site"
cp "$root/scripts/test_package_inside.sh" "$site/inside.sh"
exec "$root/scripts/boot_debian.sh" "$site"
