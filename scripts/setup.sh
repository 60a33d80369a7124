#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Makes sure of what a target of the Makefile needs, and does nothing where it is there already.
#
#   scripts/setup.sh NEED...
#
#   make      make itself
#   swift     Swift 6.2 or newer: looked for, never installed
#   headers   the headers of SQLite, zlib and libpq: installed by the system's package manager where they are missing
#   postgres  PostgreSQL's server, which the tests start for themselves: the same; a cluster that Debian makes with it is not used
#   python    Python 3, its cryptography and pytest, for the script that checks the dashboard, for the examples of Examples/sql, which
#             the tests run, for the receiver of webhooks that they kill, and for the fixtures of Clients/python
#   openssl   openssl, with which tests make certificates
#   debian    what makes a Debian package, and lintian, which finds its mistakes
#   systemd   systemd-nspawn and debootstrap, for a container with a systemd of its own
#   container crun, which runs a container without an engine, and in .build/tools what compares packaging/ with its schemas
#   dist      what packs a release: fakeroot, and in .build/tools what makes and tests Python's packages and checks an SBOM
#   node      Node.js
#   promtool  Prometheus's own checker: unpacked into .build/tools where it is missing, nothing is installed or started
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
tools="$root/.build/tools"
scratch="$root/.build/tmp"
mkdir -p "$tools" "$scratch"

say() {
    printf 'setup: %s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

can_be_root() {
    [ "$(id -u)" -eq 0 ] || has sudo
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# install_package WHAT APT DNF APK
install_package() {
    if has apt-get; then
        ask_for "$1" "$2" "apt-get install"
        as_root apt-get update -qq >&2 || say "apt-get update failed; going on with the lists that are there."
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >&2 || could_not "$2"
    elif has dnf; then
        ask_for "$1" "$3" "dnf install"
        as_root dnf install -y -q "$3" >&2 || could_not "$3"
    elif has apk; then
        ask_for "$1" "$4" "apk add"
        as_root apk add --quiet "$4" >&2 || could_not "$4"
    else
        die "$1 missing and this system has no apt-get, dnf or apk; install what it calls $2."
    fi
}

# ask_for WHAT PACKAGE COMMAND
ask_for() {
    can_be_root || die "$1 missing; install $2 as root with: $3 $2"
    say "$1 missing; running: $3 $2"
}

could_not() {
    die "$1 could not be installed; the lines above say why."
}

need_make() {
    has make || install_package "make is" make make make
}

need_swift() {
    has swift || die "Swift 6.2 or newer is needed and there is no swift on the PATH; get it from https://www.swift.org/install."
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] ||
        die "Swift 6.2 or newer is needed and $(command -v swift) does not answer like Swift; get it from https://www.swift.org/install."
    major=${version%%.*}
    minor=${version#*.}
    if [ "$major" -lt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -lt 2 ]; }; then
        die "Swift 6.2 or newer is needed and $(command -v swift) is $version; get a newer one from https://www.swift.org/install."
    fi
}

# What a macro of a header expands to; nothing where the header is missing.
macro() {
    for compiler in clang cc gcc; do
        has "$compiler" || continue
        printf '#include <%s>\n%s\n' "$1" "$2" | "$compiler" -E -P -x c - 2>/dev/null | tail -n 1
        return
    done
}

need_headers() {
    # Xcode brings both.
    [ "$(uname -s)" != Darwin ] || return 0
    has clang || has cc || has gcc || die "A C compiler is needed to look for headers and none is on the PATH; Swift comes with clang."
    case $(macro zlib.h ZLIB_VERNUM) in
        0x*) ;;
        *) install_package "zlib's headers are" zlib1g-dev zlib-devel zlib-dev ;;
    esac
    case $(macro sqlite3.h SQLITE_VERSION_NUMBER) in
        [0-9]*) ;;
        *) install_package "SQLite's headers are" libsqlite3-dev sqlite-devel sqlite-dev ;;
    esac
    # Debian has them in a folder.
    case $(macro libpq-fe.h LIBPQ_HAS_PIPELINING)$(macro postgresql/libpq-fe.h LIBPQ_HAS_PIPELINING) in
        *1*) ;;
        *) install_package "libpq's headers (14 or newer) are" libpq-dev libpq-devel libpq-dev ;;
    esac
    sqlite=$(macro sqlite3.h SQLITE_VERSION_NUMBER)
    case $sqlite in
        [0-9]*) ;;
        *) die "SQLite's headers are installed and the C compiler on the PATH does not find them." ;;
    esac
    [ "$sqlite" -ge 3037000 ] || die "SQLite 3.37 or newer is needed and sqlite3.h has SQLITE_VERSION_NUMBER $sqlite."
}

need_postgres() {
    # Debian keeps the server out of the PATH.
    if has initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then return 0; fi
    # Debian makes a cluster with the server and starts it; ours are made by the tests.
    if has apt-get && can_be_root && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        as_root mkdir -p /etc/postgresql-common
        printf 'create_main_cluster = false\n' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    fi
    install_package "PostgreSQL's server is" postgresql postgresql-server postgresql
}

need_promtool() {
    PATH="$tools:$PATH"
    if has promtool; then return 0; fi
    if ! has apt-get || ! has dpkg-deb; then
        say "promtool is missing and only Debian's packages are known to bring it; the tests that need it will say so."
        return 0
    fi
    say "promtool is missing; unpacking it from Debian's package prometheus into .build/tools, without installing the package."
    work=$(mktemp -d "$scratch/promtool.XXXXXX")
    if (cd "$work" && fetch prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xf - ./usr/bin/promtool); then
        mv "$work/usr/bin/promtool" "$tools/promtool"
    else
        say "promtool could not be fetched; the tests that need it will say so."
    fi
    rm -rf "$work"
}

# fetch PACKAGE
fetch() {
    download "$1" 2>/dev/null && return
    can_be_root && as_root apt-get update -qq >&2 && download "$1" >&2
}

# The folder is ours, so apt's own unprivileged user could not write to it.
download() {
    apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$1"
}

need_python() {
    has python3 || install_package "Python 3 is" python3 python3 python3
    python3 -c 'import cryptography' 2>/dev/null ||
        install_package "Python's cryptography is" python3-cryptography python3-cryptography py3-cryptography
    python3 -c 'import pytest' 2>/dev/null || install_package "pytest is" python3-pytest python3-pytest py3-pytest
}

need_openssl() {
    has openssl || install_package "openssl is" openssl openssl openssl
}

need_debian() {
    has apt-get || die "Debian packages are made on Debian."
    has dh || install_package "debhelper is" debhelper
    has fakeroot || install_package "fakeroot is" fakeroot
    has help2man || install_package "help2man is" help2man
    has lintian || install_package "lintian is" lintian
}

need_systemd() {
    has systemd-nspawn || install_package "systemd-nspawn is" systemd-container systemd-container systemd-container
    has debootstrap || install_package "debootstrap is" debootstrap debootstrap debootstrap
}

need_venv() {
    python3 -c 'import ensurepip' 2>/dev/null || install_package "Python's venv is" python3-venv python3 py3-pip
}

need_container() {
    has crun || install_package "crun is" crun crun crun
    need_openssl
    has curl || install_package "curl is" curl curl curl
    python3 -c 'import yaml' 2>/dev/null || install_package "PyYAML is" python3-yaml python3-pyyaml py3-yaml
    PATH="$tools:$PATH"
    has check-jsonschema && has kubernetes-validate && return 0
    say "check-jsonschema or kubernetes-validate is missing; installing both with pip into .build/tools."
    need_venv
    python3 -m venv "$tools/schemas" && "$tools/schemas/bin/pip" install -q check-jsonschema kubernetes-validate >&2 &&
        ln -sf schemas/bin/check-jsonschema schemas/bin/kubernetes-validate "$tools" ||
        say "they could not be installed; the test will say so."
}

need_dist() {
    has fakeroot || install_package "fakeroot is" fakeroot fakeroot fakeroot
    # The same versions make the same files.
    set -- build==1.2.2.post1 setuptools==80.9.0 wheel==0.45.1 pytest==8.4.2 'cyclonedx-python-lib[json-validation]==9.1.0'
    [ "$(cat "$tools/dist/packages" 2>/dev/null)" != "$*" ] || return 0
    say "build, setuptools or cyclonedx-python-lib is missing; installing them with pip into .build/tools."
    need_venv
    python3 -m venv --clear "$tools/dist"
    "$tools/dist/bin/pip" install -q "$@" >&2 || die "they could not be installed; the lines above say why."
    echo "$*" >"$tools/dist/packages"
}

need_node() {
    has node || install_package "Node.js is" nodejs nodejs nodejs
}

for need in "$@"; do
    case $need in
        make) need_make ;;
        swift) need_swift ;;
        headers) need_headers ;;
        postgres) need_postgres ;;
        promtool) need_promtool ;;
        python) need_python ;;
        openssl) need_openssl ;;
        debian) need_debian ;;
        systemd) need_systemd ;;
        container) need_container ;;
        dist) need_dist ;;
        node) need_node ;;
        *) die "$need is nothing this script knows; it knows make, swift, headers, postgres, promtool, python, openssl, debian, systemd, container, dist and node." ;;
    esac
done
