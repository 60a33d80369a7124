#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Boots Debian in a container with a systemd of its own, and runs SITE/inside.sh there as root. Ends with the status of that script.
#
#   scripts/boot_debian.sh SITE [NSPAWN-OPTION...]
#
# For root on Linux. The container has its own root directory, processes and network, and sees SITE as /site. Its changes are in memory and
# end with it. Shows what the script prints.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
debian="$root/.build/systemd/debian"
site=$1
shift

die() {
    printf 'boot_debian: %s\n' "$*" >&2
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
    echo "boot_debian: unpacking $release into $debian, once"
    debootstrap --variant=minbase --include="$packages" "$release" "$debian" ${mirror:+"$mirror"} >"$debian.log" 2>&1 ||
        die "debootstrap failed: $debian.log says why"
    touch "$debian.complete"
}

make_debian
# Shows the sentences as they come, to the last one.
touch "$site/log"
tail -f --pid=$$ "$site/log" &
# systemd-nspawn's own filter of system calls would refuse some that the unit's sandbox needs. A systemd of this machine must not
# hear of the container, so it gets a /run of its own.
exec unshare --mount --propagation private sh -euc 'mount -t tmpfs tmpfs /run && exec "$@"' sh \
    env SYSTEMD_SECCOMP=0 systemd-nspawn --quiet --register=no --keep-unit --private-network --console=pipe \
    --directory="$debian" --volatile=overlay --bind="$site":/site "$@" \
    --bind-ro="$root/scripts/boot_debian.service":/etc/systemd/system/inside.service \
    --boot systemd.wants=inside.service systemd.show_status=no systemd.log_target=null
