#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Assembles the root file system of the container image from the packages of this machine's Debian: the libraries that siwatch loads, the
# CA certificates, and busybox as the shell. packaging/container/Containerfile copies the folder; scripts/test_container.py starts it.
#
#   scripts/container_root.sh SIWATCH FOLDER
#
# For root on Debian or Ubuntu. Makes the folder anew. Prints nothing.
set -eu
export LC_ALL=C

siwatch=$(realpath "$1") root=$2
libraries="libc6 libpq5 libsqlite3-0 libstdc++6 zlib1g busybox"
# The numbers are part of the interface: files of secrets and volumes name them.
user=10001
backends=10002

debs=$(mktemp -d)
trap 'rm -rf "$debs"' EXIT
mkdir "$debs/partial"
: >"$debs/none"

# Without any package installed, so that apt fetches all that they depend on.
apt-get -qq -o Dir::State::status="$debs/none" -o Dir::Cache::archives="$debs" -o APT::Sandbox::User=root \
    install --yes --no-install-recommends --download-only $libraries >"$debs/log" 2>&1 || { cat "$debs/log" >&2 && exit 1; }
# What it depends on installs the certificates, and is not needed to read them.
(cd "$debs" && apt-get -qq -o APT::Sandbox::User=root download ca-certificates)

rm -rf "$root"
mkdir -p "$root"
cd "$root"
mkdir -p usr/bin usr/lib usr/sbin etc/ssl/certs var/lib/dpkg/status.d proc sys dev
for folder in bin lib sbin; do ln -s usr/$folder $folder; done
[ "$(uname -m)" != x86_64 ] || { mkdir usr/lib64 && ln -s usr/lib64 lib64; }
for deb in "$debs"/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink
    # Where scanners for known flaws look for packages.
    dpkg-deb --field "$deb" >"var/lib/dpkg/status.d/$(dpkg-deb --field "$deb" Package)"
done
cat usr/share/ca-certificates/mozilla/*.crt >etc/ssl/certs/ca-certificates.crt

find usr/share -mindepth 1 -maxdepth 1 ! -name doc -exec rm -rf {} +
find usr/share/doc ! -type d ! -name copyright -delete
find usr/share/doc -mindepth 1 -type d -empty -delete
rm -rf usr/lib/*/gconv usr/lib/*/audit usr/lib/tmpfiles.d usr/lib/sysusers.d usr/lib/systemd etc/ca-certificates* etc/init.d etc/default
for name in sh cat df id kill ls mkdir ps stat tar top; do ln -s busybox usr/bin/$name; done

cp -L /etc/os-release etc/os-release
printf '%s\n' 'passwd: files' 'group: files' 'hosts: files dns' >etc/nsswitch.conf
printf '%s\n' root:x:0:0::/root:/sbin/nologin "siwatch:x:$user:$user::/var/lib/siwatch:/sbin/nologin" >etc/passwd
printf '%s\n' root:x:0: "siwatch:x:$user:" "siwatch-backend:x:$backends:siwatch" >etc/group
install -d -m 1777 tmp var/tmp
install -d -m 755 root run
install -d -o root -g $user -m 750 etc/siwatch
install -d -o $user -g $user -m 700 run/siwatch
# A new volume of Docker gets owner, group and mode of the folder that it covers.
install -d -o $user -g $backends -m 2750 run/door
install -d -o $user -g $backends -m 2770 var/lib/siwatch
install -m 755 "$siwatch" usr/bin/siwatch
