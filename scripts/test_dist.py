#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Installs and uses each file of a release in dist/VERSION, as make dist has made them.

    scripts/test_dist.py [sums] [sbom] [symbols] [python] [javascript] [install] [package] [image]

    sums         the checksums, and that they name every file
    sbom         its schema, and that it names what is inside
    symbols      the package of the symbols, by the program's build id
    python       the wheel and the sdist, in virtual environments
    javascript   the npm tarball, by Node
    install      the tarball and the packages, in a container with a systemd of its own; for root
    package      the package of siwatch, as make test-package does; for root
    image        the image, as make test-container does with Compose; for root

Prints a line for each sentence that holds or does not. Ends with the number of the latter.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from archives import ROOT, unpack

VERSION = (ROOT / "VERSION").read_text().strip()
DIST = ROOT / "dist" / VERSION
ARCHITECTURE = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
TOOLS = ROOT / ".build/tools/dist"
failures = 0

VALIDATION = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(error and str(error))
"""
PYTEST = """
import importlib.metadata

def test_a_session_ends(apple_user, siwatch_daemon):
    assert importlib.metadata.version("siwatch") == "%s"
    sign_in = siwatch_daemon.client.sign_in("com.example.app", apple_user.sign_in().code)
    ends = lambda: siwatch_daemon.client.ends_session(apple_user.user_id, sign_in.signed_in_at)
    assert not ends()
    apple_user.delete_account()
    siwatch_daemon.wait_for_state(apple_user.user_id, "notFound")
    assert ends()
"""
NODE = """
import assert from "node:assert/strict";
import test, { after } from "node:test";
import { Siwatch } from "siwatch";
import { startTestbed } from "siwatch/testing";

const { apple, siwatch, stop } = await startTestbed();
after(stop);
test("a session ends", async () => {
  assert(siwatch.client instanceof Siwatch);
  const user = apple.newUser();
  const { code } = await user.signIn();
  const { signedInAt } = await siwatch.client.signIn({ clientId: "com.example.app", code });
  assert(!(await siwatch.client.endsSession(user.userId, signedInAt)));
  await user.deleteAccount();
  await siwatch.waitForState(user.userId, "notFound");
  assert(await siwatch.client.endsSession(user.userId, signedInAt));
});
"""


def holds(sentence, is_true, said=""):
    global failures
    print(f"{'✓' if is_true else '✗'} {sentence}", flush=True)
    if not is_true:
        failures += 1
        print(str(said)[-3000:], flush=True)


def succeeds(sentence, *command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    holds(sentence, done.returncode == 0, done.stdout)
    return done.stdout


def passes(*command):
    """Runs a script that prints sentences of its own, and counts those that do not hold."""
    global failures
    failures += subprocess.run([str(word) for word in command]).returncode


def the(pattern):
    (found,) = DIST.glob(pattern)
    return found


def programs(work):
    """The environment in which the fixtures find the programs of the tarball."""
    if not (work / "programs").exists():
        unpack(the("siwatch-*-linux-*.tar.gz"), work / "programs")
    (folder,) = (work / "programs").glob("*/bin")
    return {**os.environ, "SIWATCH": f"{folder}/siwatch", "SIWATCH_SIMULATOR": f"{folder}/siwatch-simulator"}


# MARK: The files


def sums(work):
    named = {line.split("  ")[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()}
    holds("SHA256SUMS names every other file", named == {file.name for file in DIST.iterdir()} - {"SHA256SUMS"}, named)
    manifests = [file.read_text() for file in (ROOT / "packaging/kubernetes").glob("*.yaml")]
    tags = {tag for text in manifests for tag in re.findall(r"image: \S+/siwatch:(\S+)", text)}
    holds("the manifests name the image of this version", tags == {VERSION}, tags)
    succeeds("every file has its checksum", "sha256sum", "--check", "--strict", "SHA256SUMS", cwd=DIST)


def sbom(work):
    file = the("*.cdx.json")
    succeeds("the SBOM is valid by its schema", TOOLS / "bin/python", "-c", VALIDATION, file)
    document = json.loads(file.read_text())
    parts = {part["bom-ref"]: part for part in document["components"]}
    pins = json.loads(the("*.Package.resolved").read_text())["pins"]
    wrong = [pin["identity"] for pin in pins if parts.get(pin["identity"], {}).get("version") != pin["state"].get("version")]
    holds("the SBOM has each package of Package.resolved, with its version", not wrong, wrong)
    needed = {"system/libsqlite3-0", "system/libpq5", "swift", "swift/ICU", "swift-nio-ssl/BoringSSL", "image"}
    holds("the SBOM has SQLite, libpq, Swift, ICU, BoringSSL and the image", needed <= parts.keys(), needed - parts.keys())
    refs = parts.keys() | {document["metadata"]["component"]["bom-ref"]}
    edges = {name for edge in document["dependencies"] for name in (edge["ref"], *edge["dependsOn"])}
    holds("each edge of the SBOM leads to a part", edges <= refs, edges - refs)
    loaded = subprocess.check_output(["readelf", "-d", programs(work)["SIWATCH"]], text=True)
    said = [p["value"] for p in document["metadata"]["properties"] if p["name"] == "siwatch:openssl"]
    is_absent = len(said) == 1 and not re.search(r"lib(ssl|crypto)", loaded)
    holds("the SBOM says that OpenSSL is absent, and the program loads none", is_absent, loaded)
    lines = subprocess.run([programs(work)["SIWATCH"], "version", "--dependencies"], text=True, capture_output=True).stdout.splitlines()
    graph = [" ".join(filter(None, (pin["identity"], pin["state"].get("version"), pin["state"]["revision"]))) for pin in pins]
    holds("siwatch version --dependencies prints the same graph", lines[1:-1] == graph, "\n".join(lines))


def symbols(work):
    folder = work / "symbols"
    for package in ("siwatch", "siwatch-dbgsym"):
        subprocess.run(["dpkg-deb", "--extract", the(f"{package}_*.deb"), folder], check=True)
    notes = subprocess.check_output(["readelf", "--notes", folder / "usr/bin/siwatch"], text=True, env={**os.environ, "LC_ALL": "C"})
    build_id = re.search(r"Build ID: (\w+)", notes)[1]
    file = folder / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    found = file.exists() and subprocess.run(["readelf", "--section-headers", "--wide", file], text=True, capture_output=True).stdout
    holds("a debugger finds the symbols by the program's build id", found and ".symtab" in found, file)


def python(work):
    environment = programs(work)
    test = work / "pytest/test_session.py"
    test.parent.mkdir()
    test.write_text(PYTEST % VERSION)
    # pytest comes from the tools, everything of siwatch from the environment.
    (packages,) = TOOLS.glob("lib/python*/site-packages")
    for kind, pattern, options in (("wheel", "*.whl", []), ("sdist", f"siwatch-{VERSION}.tar.gz", ["--no-build-isolation"])):
        folder = work / f"venv-{kind}"
        venv.create(folder, with_pip=True)
        succeeds(f"the {kind} installs in a virtual environment", folder / "bin/pip", "install", "-q", "--no-index", *options, the(pattern),
                 env={**os.environ, "PYTHONPATH": str(packages)} if options else None)
        line = [folder / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        succeeds(f"pytest finds the fixtures of the {kind}, and a session ends", *line,
                 env={**environment, "PYTHONPATH": str(packages)}, cwd=test.parent)


def javascript(work):
    folder = work / "node"
    modules = folder / "node_modules"
    modules.mkdir(parents=True)
    shutil.move(unpack(the("*.tgz"), folder / "unpacked") / "package", modules / "siwatch")
    described = json.loads((modules / "siwatch/package.json").read_text())
    holds("the npm tarball has the version, and each file that it names", described["version"] == VERSION
          and all((modules / "siwatch" / name).is_file() for name in described["files"]), described)
    (folder / "session.test.mjs").write_text(NODE)
    succeeds("node:test finds the fixtures of the npm tarball, and a session ends", "node", "--test", "session.test.mjs",
             cwd=folder, env=programs(work))


def install(work):
    site = ROOT / ".build/systemd/dist-site"
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir(parents=True)
    for file in (*DIST.glob("*.deb"), the("siwatch-*-linux-*.tar.gz")):
        shutil.copy(file, site)
    shutil.copytree(ROOT / "scripts", site / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "scripts/test_dist_inside.sh", site / "inside.sh")
    passes(ROOT / "scripts/boot_debian.sh", site)


def package(work):
    passes(ROOT / "scripts/test_package.sh", the("siwatch_*.deb"))


def image(work):
    passes(sys.executable, ROOT / "scripts/test_container.py", the("*-image-*.tar"), programs(work)["SIWATCH_SIMULATOR"], "compose")


def main():
    tests = {test.__name__: test for test in (sums, sbom, symbols, python, javascript, install, package, image)}
    chosen = sys.argv[1:] or list(tests)
    if unknown := [name for name in chosen if name not in tests]:
        sys.exit(f"test_dist: there is no {', '.join(unknown)}, but {', '.join(tests)}")
    if not DIST.is_dir():
        sys.exit(f"test_dist: {DIST} is not there: run make dist")
    with tempfile.TemporaryDirectory() as work:
        for name in chosen:
            tests[name](Path(work))
    sys.exit(min(failures, 125))


if __name__ == "__main__":
    main()
