#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Packs the root of the container image as an OCI archive, with what the Containerfile says after FROM scratch.

    scripts/build_image.py FOLDER VERSION ARCHITECTURE ARCHIVE

The archive is also one that `docker load` takes. FOLDER is what scripts/container_root.sh has made. One that fakeroot has made is packed
under the same fakeroot, which knows its owners.
"""

import hashlib
import json
import re
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from archives import ROOT, epoch, gzipped, tar


def instructions():
    """Of each instruction of the image that runs, the texts after it."""
    text = (ROOT / "packaging/container/Containerfile").read_text()
    said = {}
    for line in text[text.index("FROM scratch"):].replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        said.setdefault(word, []).append(rest.strip())
    return said


def configuration(said):
    """What a container is started with: https://github.com/opencontainers/image-spec/blob/main/config.md, and Docker's Healthcheck."""
    labels = dict(re.findall(r'(\S+)="([^"]*)"', " ".join(said["LABEL"])))
    options, _, command = said["HEALTHCHECK"][0].partition("CMD ")
    seconds = {name: int(value) for name, value in re.findall(r"--(\S+)=(\d+)s", options)}
    nanoseconds = 1_000_000_000
    return {
        "User": said["USER"][0],
        "ExposedPorts": {f"{port}/tcp": {} for port in said["EXPOSE"][0].split()},
        "Env": re.findall(r"(\w+=\S+)", " ".join(said["ENV"])),
        "Entrypoint": json.loads(said["ENTRYPOINT"][0]),
        "Cmd": json.loads(said["CMD"][0]),
        "Volumes": {volume: {} for volume in said["VOLUME"]},
        "WorkingDir": "/",
        "Labels": labels,
        "StopSignal": said["STOPSIGNAL"][0],
        "Healthcheck": {
            "Test": ["CMD-SHELL", command],
            "Interval": seconds["interval"] * nanoseconds,
            "Timeout": seconds["timeout"] * nanoseconds,
            "StartPeriod": seconds["start-period"] * nanoseconds,
            "Retries": int(re.search(r"--retries=(\d+)", options)[1]),
        },
    }


def pack(root, version, architecture, archive):
    created = datetime.fromtimestamp(epoch(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with tempfile.TemporaryDirectory() as folder:
        layout = Path(folder)
        blobs = layout / "blobs/sha256"
        blobs.mkdir(parents=True)

        def blob(data, kind):
            digest = hashlib.sha256(data).hexdigest()
            (blobs / digest).write_bytes(data)
            return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

        def document(value):
            return json.dumps(value, indent=1, sort_keys=True).encode()

        files = tar(root, keeps_owners=True)
        layer = blob(gzipped(files), "layer.v1.tar+gzip")
        config = configuration(instructions())
        config["Labels"]["org.opencontainers.image.version"] = version
        described = blob(document({
            "created": created, "architecture": architecture, "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(files).hexdigest()}"]},
            "history": [{"created": created, "created_by": "packaging/container/Containerfile"}],
        }), "config.v1+json")
        manifest = blob(document({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": described, "layers": [layer],
        }), "manifest.v1+json")
        manifest["platform"] = {"architecture": architecture, "os": "linux"}
        manifest["annotations"] = {
            "org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/siwatch:{version}",
        }
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}
        (layout / "index.json").write_bytes(document(index))
        (layout / "oci-layout").write_bytes(document({"imageLayoutVersion": "1.0.0"}))
        path = {name: "blobs/" + part["digest"].replace(":", "/") for name, part in (("config", described), ("layer", layer))}
        (layout / "manifest.json").write_bytes(document([
            {"Config": path["config"], "RepoTags": [f"siwatch:{version}"], "Layers": [path["layer"]]},
        ]))
        Path(archive).write_bytes(tar(layout))


if __name__ == "__main__":
    pack(*sys.argv[1:])
