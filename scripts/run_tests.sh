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

rm -f "$failed"
if [ -t 1 ]; then moves=1; else moves=0; fi
# shellcheck disable=SC2086 # They are words.
{ swift test $SWIFT_FLAGS --skip-build --parallel "$@" 2>&1 || echo "$?" >"$failed"; } | tee "$log" | awk -v moves="$moves" '
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
grep 'Test run with' "$log" | tail -n 1 || true
[ ! -e "$failed" ] || exit "$(cat "$failed")"
