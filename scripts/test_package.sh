#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Packs two versions of a program, and installs, upgrades, removes and purges them in a container with a systemd of its own, as
# scripts/test_package_inside.sh says. Ends with the number of sentences that do not hold.
#
#   scripts/test_package.sh PROGRAM [CHECKOUTS]     as scripts/build_deb.sh
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
site="$root/.build/systemd/package-site"

rm -rf "$site"
mkdir -p "$site/docs"
for suffix in '' +1; do SUFFIX=$suffix "$root/scripts/build_deb.sh" "$@"; done
version=$(sed -n 's/.*current = "\(.*\)"/\1/p' "$root/Sources/siwatch/Command/Version.swift")
cp "$root/.build/siwatch_${version}_"*.deb "$site/siwatch.deb"
cp "$root/.build/siwatch_${version}+1_"*.deb "$site/siwatch+1.deb"
# An older release's database.
cp "$root/Tests/StoreTests/Migration/Frozen/v1.sqlite" "$site"
cp "$root/docs/postgresql.md" "$site/docs"
cp -r "$root/scripts" "$site"
cp "$root/scripts/test_package_inside.sh" "$site/inside.sh"
exec "$root/scripts/boot_debian.sh" "$site"
