#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Loads the page of a siwatch at work in a headless Chromium, at three widths, in both themes, and without JavaScript.
# Ends with 1 and a line for each fault: an error in the console, a request to elsewhere, weak contrast, a control without a name.
#
#   scripts/test_page.sh SIWATCH SIWATCH-SIMULATOR [FOLDER-FOR-SCREENSHOTS]
#
# Needs Debian's package chromium.
set -eu

scripts=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
folder=$(mktemp -d)
started=
trap 'kill $started 2>/dev/null; rm -rf "$folder"' EXIT

# waited_for PATTERN FILE: gives up after a minute.
waited_for() {
    tries=600
    until grep -qs "$1" "$2"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { cat "$2" >&2 && exit 2; }
        sleep 0.1
    done
}

siwatch=$(realpath "$1")
simulator=$(realpath "$2")
shots=$(realpath -m "${3:-$folder/shots}")
cd "$folder"
"$simulator" --print-config >siwatch.toml 2>simulator.log &
started="$started $!"
waited_for '^keys_endpoint' siwatch.toml
printf '[operations]\nlisten = "127.0.0.1:0"\nsocket = ""\n[log]\nformat = "text"\n' >>siwatch.toml
"$siwatch" migrate --config siwatch.toml
"$siwatch" run --config siwatch.toml 2>siwatch.log &
started="$started $!"
waited_for 'event=ready' siwatch.log
address=$(sed -n 's/.*event=listening address=\([^ ]*\).*/\1/p' siwatch.log)
echo 'no notification' >notification
"$siwatch" enqueue notification --config siwatch.toml
"$scripts/check_page.py" --shots "$shots" "http://$address/"
