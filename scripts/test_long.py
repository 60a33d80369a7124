#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Runs the targets of the Makefile that are long, one after another, and prints one table.

    scripts/test_long.py [TARGET]...    those; all without one

A target that this machine cannot run, because it needs root or a package that cannot be had, fails as any other. What each printed is in
.build/long/TARGET.log.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Each with what it is given at length.
TARGETS = {
    "plant-bugs": [],
    "plant-bugs-of-tests": ["ARGS=--tests"],
    "simulate": ["SEEDS=100000"],
    "simulate-postgres": ["STORE=postgres", "SEEDS=1000"],
    "test-full": [],
    "test-kills": [],
    "test-chaos": [],
    "test-fleet-kills": [],
    "test-http": [],
    "test-examples": [],
    "test-page": [],
    "walk-runbooks": [],
    "test-systemd": [],
    "test-package": [],
    "test-container": [],
    "dist": [],
    # test-package has been run.
    "test-dist": ["ONLY=sums sbom symbols python javascript install image"],
    "test-tsan": [],
}
# Where the name here is not that of the target.
NAMES = {"plant-bugs-of-tests": "plant-bugs", "simulate-postgres": "simulate"}


def run(name, log):
    """Whether the target succeeds."""
    with log.open("w") as file:
        return subprocess.run(["make", NAMES.get(name, name), *TARGETS[name]], cwd=ROOT, stdout=file, stderr=file).returncode == 0


def main():
    chosen = sys.argv[1:] or list(TARGETS)
    if unknown := [name for name in chosen if name not in TARGETS]:
        sys.exit(f"no long target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    folder = ROOT / ".build/long"
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in chosen:
        log = folder / f"{name}.log"
        begin = time.monotonic()
        succeeded = run(name, log)
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        print(f"{'✓' if succeeded else '✗'} {name:20} {(time.monotonic() - begin) / 60:6.1f} min  {(lines or [''])[-1][:100]}", flush=True)
        if not succeeded:
            failed.append(name)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} succeeded" + (f"; see .build/long of {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
