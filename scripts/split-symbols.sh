#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Copies a program without its symbols, and lays these beside it, where a debugger looks for them.
#
#   scripts/split-symbols.sh BUILT PROGRAM
set -eu

built=$1 program=$2

size() {
    du -h "$1" | cut -f 1
}

if [ "$(uname -s)" = Linux ]; then
    # One of them comes with Swift.
    objcopy=$(command -v llvm-objcopy || command -v objcopy) || {
        printf '%s: neither llvm-objcopy nor objcopy is there, so the symbols stay in %s\n' "$0" "$built" >&2
        exit 1
    }
    "$objcopy" --only-keep-debug "$built" "$program.debug"
    "$objcopy" --strip-all --add-gnu-debuglink="$program.debug" "$built" "$program"
    printf '%s: the program (%s)\n%s: its symbols (%s), for a debugger; keep them as long as you run it\n' \
        "$program" "$(size "$program")" "$program.debug" "$(size "$program.debug")"
else
    strip -x -o "$program" "$built"
    printf '%s: the program (%s)\n%s: the same with its symbols\n' "$program" "$(size "$program")" "$built"
fi
