# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Archives that are the same byte for byte wherever and whenever the same files are packed."""

import gzip
import io
import os
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def epoch():
    """SOURCE_DATE_EPOCH, else the time of the last commit, in seconds. Files of `git archive` have it too."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if not (ROOT / ".git").exists():
        return int((ROOT / "VERSION").stat().st_mtime)
    return int(subprocess.check_output(["git", "-C", ROOT, "log", "-1", "--format=%ct"]))


def tar(folder, prefix="", keeps_owners=False):
    """What is in a folder, as a tar in the order of its names, all of one time.

    Without `keeps_owners` root owns everything, and modes are 755 or 644."""
    def stamped(member):
        member.mtime, member.uname, member.gname = epoch(), "", ""
        if not keeps_owners:
            member.uid = member.gid = 0
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        # `add` sorts the names of each folder below.
        for name in sorted(os.listdir(folder)):
            archive.add(Path(folder, name), str(Path(prefix, name)), filter=stamped)
    return packed.getvalue()


def gzipped(data):
    return gzip.compress(data, 9, mtime=0)


def unpack(archive, folder):
    """Unpacks a tar, compressed or not, without its owners. By tar, because the Python of Debian 12 lets a name lead out."""
    Path(folder).mkdir(exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", folder, "--no-same-owner"], check=True)
    return folder
