#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Boots Debian in a container with a systemd of its own, for scripts/test_systemd_inside.sh. Ends with the number of sentences that do not hold.
#
#   scripts/test_systemd.sh SIWATCH APPLE-SIMULATOR
#
# For root on Linux. The container has its own root directory, processes and network. It sees the two programs, the libraries of Swift
# that they need, and copies of the pages and files that it installs. Its changes are in memory and end with it.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
programs="$1 $2"
debian="$root/.build/systemd/debian"
site="$root/.build/systemd/site"

die() {
    printf 'test_systemd: %s\n' "$*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || die "only root can boot a container"

# The machine's own release, because the programs were built against its libraries.
make_debian() {
    [ ! -e "$debian.complete" ] || return 0
    release=$(. /etc/os-release && printf %s "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | awk -v r="$release" '$2 == r { print $1; exit }')
    packages=systemd,systemd-sysv,dbus,procps,sudo,curl,ca-certificates,sqlite3,libsqlite3-0,libstdc++6,libpq5,postgresql
    rm -rf "$debian"
    mkdir -p "$debian/etc/postgresql-common"
    # Otherwise the package makes a database and starts it, outside of the container.
    printf 'create_main_cluster = false\n' >"$debian/etc/postgresql-common/createcluster.conf"
    echo "test_systemd: unpacking $release into $debian, once"
    debootstrap --variant=minbase --include="$packages" "$release" "$debian" ${mirror:+"$mirror"} >"$debian.log" 2>&1 ||
        die "debootstrap failed: $debian.log says why"
    touch "$debian.complete"
}

make_site() {
    rm -rf "$site"
    mkdir -p "$site/.build" "$site/docs"
    cp -r "$root/README.md" "$root/etc" "$root/systemd" "$root/scripts" "$site"
    cp "$root/docs/postgresql.md" "$site/docs"
    cp "$1" "$site/.build/siwatch"
    cp "$2" "$site/apple-simulator"
}

# Folders of libraries that are no part of the system.
libraries() {
    ldd $programs | awk '$3 ~ /^\// && $3 !~ /^\/(usr\/)?lib/ { sub(/\/[^\/]*$/, "", $3); print "--bind-ro=" $3 }' | sort -u
}

make_debian
make_site "$@"
# Shows the sentences as they come, to the last one.
touch "$site/log"
tail -f --pid=$$ "$site/log" &
# systemd-nspawn's own filter of system calls would refuse some that the unit's sandbox needs. A systemd of this machine must not
# hear of the container, so it gets a /run of its own.
exec unshare --mount --propagation private sh -euc 'mount -t tmpfs tmpfs /run && exec "$@"' sh \
    env SYSTEMD_SECCOMP=0 systemd-nspawn --quiet --register=no --keep-unit --private-network --console=pipe \
    --directory="$debian" --volatile=overlay --bind="$site":/site $(libraries) \
    --bind-ro="$root/scripts/test_systemd_inside.service":/etc/systemd/system/inside.service \
    --boot systemd.wants=inside.service systemd.show_status=no systemd.log_target=null
