#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Runs the tests that are built with $SWIFT_FLAGS. All that they print is in .build/test.log. Here come a line that moves, if somebody
# watches, each failure as it happens, how to repeat each, and the test runner's own summary.
#
#   scripts/run_tests.sh [OPTION OF SWIFT TEST]...
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
log="$root/.build/test.log"
failed="$root/.build/test.failed"
PATH="$root/.build/tools:$PATH"
SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=12
export PATH SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH

# They last for minutes. Beside the others they begin at once, and would otherwise be what all wait for at the end.
long='ChaosTests|FleetKillTests|SimulationTests'

run() {
    # shellcheck disable=SC2086 # They are words.
    swift test $SWIFT_FLAGS --skip-build --ignore-lock --parallel "$@" 2>&1 || echo "$?" >>"$failed"
}

all() {
    if [ $# -gt 0 ]; then
        run "$@"
    else
        SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=3 run --filter "$long" &
        run --skip "$long"
        wait
    fi
}

rm -f "$failed"
if [ -t 1 ]; then moves=1; else moves=0; fi
all "$@" | tee "$log" | awk -v moves="$moves" '
    function clear() { if (moves) printf "\r\033[K" }
    /^✔ Test / { passed++ }
    /✘ (Test|Suite) / { clear(); print substr($0, 1, 600); fflush() }
    moves && /^[✔◇] Test / { printf "\r\033[K%d passed: %s", passed, substr($0, 1, 90); fflush() }
    END { clear() }'

if [ -e "$failed" ]; then
    grep -q '✘' "$log" || { echo "The test runner names no failure; its last lines:" && tail -n 40 "$log"; }
    echo "To repeat each (all that was printed: .build/test.log):"
    sed -n 's/^✘ Test \([A-Za-z0-9_]*\)(.* recorded an issue.*/  make test ARGS="--filter \1"/p' "$log" | sort -u
fi
# The larger of two runs last.
grep 'Test run with' "$log" | sort -k5,5n || true
[ ! -e "$failed" ] || exit "$(head -n 1 "$failed")"
