#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Runs the tests that are built, and names those that failed once more at the end, where somebody looks for them among thousands of lines.
#
#   scripts/run_tests.sh [OPTION OF SWIFT TEST]...
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
log="$root/.build/test.log"
failed="$root/.build/test.failed"
PATH="$root/.build/tools:$PATH"
SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=8
export PATH SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH

rm -f "$failed"
{ swift test --skip-build --parallel "$@" 2>&1 || echo "$?" >"$failed"; } | tee "$log"
[ -e "$failed" ] || exit 0

echo
echo "What failed (all that was printed: .build/test.log):"
grep '✘' "$log" | cut -c1-600 || echo "nothing that the test runner names: look for a crash"
exit "$(cat "$failed")"
