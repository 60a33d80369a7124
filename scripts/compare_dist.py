#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Builds a release twice, in two folders, and names what differs: files, what is in them, and sections of programs.

    scripts/compare_dist.py                    clones the last commit into two folders below .build/compare, and runs make dist in each
    scripts/compare_dist.py FOLDER FOLDER      compares two folders of make dist

Both clones get this folder's Package.resolved, if there is one. Ends with 1 if anything differs.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from archives import ROOT, unpack

# Of different lengths, because a path that lies in a program also moves what follows it.
FOLDERS = [ROOT / ".build/compare/one", ROOT / ".build/compare/the-other-folder"]


def build(folder, resolved):
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    if resolved:
        (folder / "Package.resolved").write_bytes(resolved)
    log = folder.with_suffix(".log")
    print(f"make dist in {folder.relative_to(ROOT)}; {log.relative_to(ROOT)} has the output", flush=True)
    with log.open("w") as file:
        if subprocess.run(["make", "dist"], cwd=folder, stdout=file, stderr=file).returncode != 0:
            sys.exit(f"compare_dist: make dist failed: {log} says why")
    return folder / "dist" / (folder / "VERSION").read_text().strip()


# MARK: What differs


def sections(path):
    """The sections of a program, by name."""
    table = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    data, found = path.read_bytes(), {}
    for name, kind, offset, size in re.findall(r"\[ *\d+\] (\S+) +(\S+) +[0-9a-f]+ +([0-9a-f]+) +([0-9a-f]+)", table):
        found[name] = b"" if kind == "NOBITS" else data[int(offset, 16):int(offset, 16) + int(size, 16)]
    return found


def unpacked(path, folder):
    """The folder of what is in an archive; nil for another file."""
    folder.mkdir()
    if path.suffix == ".deb":
        subprocess.run(["dpkg-deb", "--raw-extract", path, folder / "deb"], check=True)
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as packed:
            packed.extractall(folder)
    elif tarfile.is_tarfile(path):
        unpack(path, folder)
    else:
        return None
    return folder


def files(folder):
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()}


def differences(one, other, name, work):
    """What differs, as lines."""
    if one.read_bytes() == other.read_bytes():
        return
    if one.read_bytes().startswith(b"\x7fELF") and other.read_bytes().startswith(b"\x7fELF"):
        first, second = sections(one), sections(other)
        differing = [s for s in sorted(first.keys() | second.keys()) if first.get(s) != second.get(s)]
        yield f"{name}: the sections {' '.join(differing) or 'are the same, their order or headers differ'}"
        return
    depth = len(list(work.iterdir()))
    folders = [unpacked(path, work / f"{depth}-{side}") for side, path in (("one", one), ("other", other))]
    if None in folders:
        yield f"{name}: {one.stat().st_size} and {other.stat().st_size} bytes"
        return
    inside = list(compared(*map(files, folders), work, f"{name}: "))
    yield from inside or [f"{name}: what is in it is the same; its order, times, owners or compression differ"]


def compared(first, second, work, prefix=""):
    for name in sorted(first.keys() | second.keys()):
        if name not in first or name not in second:
            yield f"{prefix}{name} is in {'the second' if name in second else 'the first'} only"
        else:
            yield from differences(first[name], second[name], prefix + name, work)


def main():
    folders = [Path(argument) for argument in sys.argv[1:]]
    if not folders:
        resolved = ROOT / "Package.resolved"
        resolved = resolved.read_bytes() if resolved.exists() else None
        first = build(FOLDERS[0], resolved)
        # The second builds from what the first has resolved.
        folders = [first, build(FOLDERS[1], (FOLDERS[0] / "Package.resolved").read_bytes())]
    with tempfile.TemporaryDirectory() as work:
        found = list(compared(*map(files, folders), Path(work)))
    print("\n".join(found) or f"{len(files(folders[0]))} files are the same, byte for byte")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
