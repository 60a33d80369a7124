#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Packs everything of a release from what `make deb` has built: dist/VERSION/, and SHA256SUMS in it.

    scripts/build_dist.py CHECKOUTS [GRAPH]

    CHECKOUTS    the sources of the packages that the programs are built from, below SwiftPM's scratch path
    GRAPH        what `swift package show-dependencies --format json` prints; asked of swift without it

The same commit, resolved graph, toolchain and system give the same bytes. docs/releasing.md says what each file is.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import make_sbom
from archives import ROOT, epoch, gzipped, tar, unpack

BUILD = ROOT / ".build"
VERSION = (ROOT / "VERSION").read_text().strip()
DIST = ROOT / "dist" / VERSION
ARCHITECTURE = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
# Laid out by scripts/build_deb.sh, with the licenses of the libraries and with pages whose links fit.
DEB = BUILD / "deb" / f"siwatch-{VERSION}"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, cwd=ROOT, **options)


def debian_packages():
    for name in ("siwatch", "siwatch-dbgsym", "siwatch-simulator"):
        shutil.copy(BUILD / f"{name}_{VERSION}_{ARCHITECTURE}.deb", DIST)


def tarball(folder):
    name = f"siwatch-{VERSION}-linux-{ARCHITECTURE}"
    for program in ("siwatch", "siwatch-simulator"):
        (folder / "bin").mkdir(exist_ok=True)
        shutil.copy(BUILD / program, folder / "bin")
    shutil.copytree(ROOT / "systemd", folder / "systemd")
    # With what the pages lead to.
    shutil.copytree(DEB / "install/docs", folder / "docs")
    shutil.copytree(DEB / "install/examples", folder / "docs/examples")
    for file in (DEB / "install/CHANGELOG.md", DEB / "debian/copyright"):
        shutil.copy(file, folder / "docs")
    shutil.copytree(DEB / "install/manuals", folder / "man/man8", ignore=shutil.ignore_patterns("*.5"))
    for section, source in ((1, "simulator-manuals"), (5, "manuals")):
        shutil.copytree(DEB / "install" / source, folder / f"man/man{section}", ignore=shutil.ignore_patterns("*.8"))
    for file in ("packaging/tarball/INSTALL.md", "LICENSE"):
        shutil.copy(ROOT / file, folder)
    (DIST / f"{name}.tar.gz").write_bytes(gzipped(tar(folder, name)))


def image(folder):
    """The root of the image, whose owners only the fakeroot knows that packs it."""
    root = folder / "root"
    archive = DIST / f"siwatch-{VERSION}-image-{ARCHITECTURE}.tar"
    line = ('scripts/container_root.sh "$1" "$2" && install -D -m 644 "$3" "$2/usr/share/doc/siwatch/copyright" && '
            'python3 scripts/build_image.py "$2" "$4" "$5" "$6"')
    run("fakeroot", "sh", "-euc", line, "sh", BUILD / "siwatch", root, DEB / "debian/copyright", VERSION, ARCHITECTURE, archive)
    return root


def python_client(folder):
    """A wheel, and an sdist with one time and one owner for all files, which setuptools does not give them."""
    source = folder / "source"
    shutil.copytree(ROOT / "Clients/python", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*"))
    run(BUILD / "tools/dist/bin/python", "-m", "build", "--no-isolation", "--outdir", folder / "built", source,
        stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch())})
    (wheel,), (sdist,) = (folder / "built").glob("*.whl"), (folder / "built").glob("*.tar.gz")
    shutil.copy(wheel, DIST)
    (DIST / sdist.name).write_bytes(gzipped(tar(unpack(sdist, folder / "sdist"))))


def javascript_client(folder):
    """What `npm pack` packs: the files that package.json names, and itself, with the version."""
    source = ROOT / "Clients/javascript"
    described = json.loads((source / "package.json").read_text())
    described = {"name": described.pop("name"), "version": VERSION, **described}
    (folder / "package.json").write_text(json.dumps(described, indent=2) + "\n")
    for file in (*(source / name for name in described["files"]), ROOT / "LICENSE"):
        shutil.copy(file, folder)
    (DIST / f"siwatch-{VERSION}.tgz").write_bytes(gzipped(tar(folder, "package")))


def sbom(folder, checkouts, graph, root):
    if not graph:
        graph = folder / "graph.json"
        with open(graph, "w") as file:
            run("swift", "package", "--scratch-path", checkouts.parent, "--disable-automatic-resolution", "show-dependencies", "--format",
                "json", stdout=file)
    make_sbom.main(BUILD / "siwatch", checkouts, graph, root, DIST / f"siwatch-{VERSION}-{ARCHITECTURE}.cdx.json")
    shutil.copy(ROOT / "Package.resolved", DIST / f"siwatch-{VERSION}.Package.resolved")


def main():
    checkouts, graph = Path(sys.argv[1]).resolve(), sys.argv[2] if sys.argv[2:] else None
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        folders = {name: Path(work, name) for name in ("tarball", "image", "python", "javascript", "sbom")}
        for folder in folders.values():
            folder.mkdir()
        debian_packages()
        tarball(folders["tarball"])
        python_client(folders["python"])
        javascript_client(folders["javascript"])
        root = image(folders["image"])
        sbom(folders["sbom"], checkouts, graph, root)
    sums = ""
    for file in sorted(DIST.iterdir()):
        sums += f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        print(f"{file.relative_to(ROOT)} ({file.stat().st_size / 1e6:.1f} MB)")
    (DIST / "SHA256SUMS").write_text(sums)


if __name__ == "__main__":
    main()
