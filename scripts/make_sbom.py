#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Writes what a release consists of: packages, copies inside them, and the system's libraries. As CycloneDX 1.6:
https://cyclonedx.org/docs/1.6/json/

    scripts/make_sbom.py PROGRAM CHECKOUTS GRAPH IMAGE FILE

    PROGRAM      siwatch, as built for installation
    CHECKOUTS    the sources of the packages
    GRAPH        what `swift package show-dependencies --format json` prints
    IMAGE        the root of the image, whose Debian packages are listed too

A copy inside a package whose version cannot be read is an error, because an SBOM that lacks something is believed.
"""

import json
import os
import re
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

from archives import ROOT, epoch

VERSION = (ROOT / "VERSION").read_text().strip()
APACHE, MIT = "Apache-2.0", "MIT"
SWIFT_LICENSE = "Apache-2.0 WITH Swift-exception"
# What the packages of a system are called there, and their licenses.
SYSTEM = {
    "libsqlite3-0": ("SQLite", "blessing"), "libpq5": ("libpq, the client of PostgreSQL", "PostgreSQL"), "zlib1g": ("zlib", "Zlib"),
    "libc6": ("the GNU C library", "LGPL-2.1-or-later"), "libstdc++6": ("the GNU C++ library", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "libgcc-s1": ("the support library of GCC", "GPL-3.0-or-later WITH GCC-exception-3.1"),
}
# Copies inside packages: package, name, license, file, what its version is made of, if the package says it.
COPIES = [
    ("swift-crypto", "BoringSSL", APACHE, "Sources/CCryptoBoringSSL/hash.txt", r"revision ([0-9a-f]{40})"),
    ("swift-nio-ssl", "BoringSSL", APACHE, "Sources/CNIOBoringSSL/hash.txt", r"revision ([0-9a-f]{40})"),
    ("swift-crypto", "XKCP", "CC0-1.0", "Sources/CXKCP", None),
    ("swift-nio", "SHA-1 of KAME", "BSD-3-Clause", "Sources/CNIOSHA1/c_nio_sha1.c", None),
    ("swift-nio", "llhttp", MIT, "Sources/CNIOLLHTTP/include/c_nio_llhttp.h", r"define LLHTTP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)"),
    ("swift-nio-extras", "zlib", "Zlib", "Sources/CNIOExtrasZlib/include/nioextras-zlib.h", r'ZLIB_VERSION "([^"]+)"'),
    ("tomlkit", "toml++", MIT, "Sources/CTOML/Sources/toml.hpp", r"define TOML_LIB_(?:MAJOR|MINOR|PATCH)\s+(\d+)"),
]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def properties(**values):
    return [{"name": f"siwatch:{name}", "value": value} for name, value in values.items()]


def component(ref, name, version, license, kind="library", **more):
    licenses = [{"expression": license}] if license else []
    given = {"version": version, "licenses": licenses, **more}
    return {"type": kind, "bom-ref": ref, "name": name, **{key: value for key, value in given.items() if value}}


# MARK: Packages


def license_of(folder):
    for file in sorted(folder.glob("LICEN[CS]E*")):
        text = file.read_text(errors="replace")
        if "Apache License" in text:
            return SWIFT_LICENSE if "Runtime Library Exception" in text else APACHE
        if "Permission is hereby granted, free of charge" in text:
            return MIT
    raise SystemExit(f"make_sbom: {folder} has no license that is known here")


def packages(pins, folders):
    for pin in pins:
        name, state, url = pin["identity"], pin["state"], pin["location"].removesuffix(".git")
        version = state.get("version", state["revision"])
        yield component(
            name, name, version, license_of(folders[name]), purl=f"pkg:swift/{url.removeprefix('https://')}@{version}",
            externalReferences=[{"type": "vcs", "url": url}], properties=properties(revision=state["revision"]),
        )


def copies(folders):
    for package, name, license, file, pattern in COPIES:
        path = folders[package] / file
        found = re.findall(pattern, path.read_text(errors="replace")) if pattern else path.exists() and [""]
        if not found:
            raise SystemExit(f"make_sbom: {name} in {package} is not where it was")
        linkage = properties(linkage=f"inside {package}")
        yield package, component(f"{package}/{name}", name, ".".join(found[:3]), license, properties=linkage)


def edges(graph):
    """The packages below each package."""
    below = {}
    waiting = [graph]
    while waiting:
        package = waiting.pop()
        name = "siwatch" if package is graph else package["identity"]
        below.setdefault(name, set()).update(child["identity"] for child in package["dependencies"])
        waiting += package["dependencies"]
    return below


# MARK: The toolchain and the system


def toolchain():
    version = re.search(r"Swift version (\S+)", output("swift", "--version"))[1]
    resources = json.loads(output("swiftc", "-print-target-info"))["paths"]["runtimeResourcePath"]
    icu = re.search(rb"\0icudt(\d+)_dat\0", Path(f"{resources}_static/linux/lib_FoundationICU.a").read_bytes())
    swift = component("swift", "Swift's standard library, Foundation and Dispatch", version, SWIFT_LICENSE, "framework",
                      purl=f"pkg:github/swiftlang/swift@swift-{version}-RELEASE", properties=properties(linkage="inside"))
    compiler = component("swift-compiler", "Swift", version, SWIFT_LICENSE, "application")
    return compiler, swift, component("swift/ICU", "ICU", icu[1].decode(), "Unicode-3.0", properties=properties(
        linkage="inside Foundation, with the data that scripts/small-icu.py leaves"))


def debian(prefix, name, version, architecture, **more):
    release = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text()))
    distribution = f"{release['ID']}-{release.get('VERSION_ID', '')}"
    purl = f"pkg:deb/{release['ID']}/{quote(name)}@{quote(version, safe='')}?arch={architecture}&distro={distribution}"
    title, license = SYSTEM.get(name, (None, None))
    return component(prefix + name, name, version, license, purl=purl, **({"description": title} if title else {}), **more)


def package_of(library):
    """The package that a library of this system is from."""
    for path in (library, f"/usr{library}", os.path.realpath(library)):
        found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise SystemExit(f"make_sbom: no package has {library}")


def system(program, architecture):
    loaded = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", program))
    if any(name.startswith(("libssl", "libcrypto")) for name in loaded):
        raise SystemExit("make_sbom: the program loads OpenSSL, and the SBOM says that it does not")
    paths = dict(re.findall(r"(\S+) => (/\S+)", output("ldd", program)))
    found = {package_of(paths[name]): "loaded at the start" for name in loaded if name in paths}
    found["libpq5"] = "loaded where PostgreSQL is configured; it loads the system's OpenSSL"
    for name, linkage in sorted(found.items()):
        version = output("dpkg-query", "-W", "-f", "${Version}", name)
        scope = "optional" if name == "libpq5" else "required"
        yield debian("system/", name, version, architecture, scope=scope, properties=properties(linkage=linkage))


def image(root, architecture):
    for file in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        field = dict(re.findall(r"(?m)^(\w+): (.*)", file.read_text()))
        yield debian("image/", field["Package"], field["Version"], field["Architecture"])


# MARK: The document


def main(program, checkouts, graph, root, file):
    pins = json.loads((ROOT / "Package.resolved").read_text())["pins"]
    folders = {folder.name.lower(): folder for folder in Path(checkouts).iterdir()}
    architecture = output("dpkg", "--print-architecture").strip()
    compiler, swift, icu = toolchain()
    inside, libraries = list(copies(folders)), list(system(program, architecture))
    below = edges(json.loads(Path(graph).read_text()))
    for package, copy in inside:
        below[package].add(copy["bom-ref"])
    below["siwatch"] |= {"swift"} | {library["bom-ref"] for library in libraries}
    below["swift"] = {"swift/ICU"}
    container = component("image", "siwatch-image", VERSION, None, "container", components=list(image(Path(root), architecture)))
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [compiler]},
            "component": component("siwatch", "siwatch", VERSION, APACHE, "application",
                                   purl=f"pkg:generic/siwatch@{VERSION}?arch={architecture}"),
            "properties": properties(openssl="neither inside nor loaded by siwatch, whose TLS is BoringSSL's",
                                     programs="siwatch and siwatch-simulator, which has a part of these packages"),
        },
        "components": [*packages(pins, folders), *(copy for _, copy in inside), swift, icu, *libraries, container],
        "dependencies": [{"ref": ref, "dependsOn": sorted(refs)} for ref, refs in sorted(below.items())],
    }
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True)).urn
    Path(file).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
