#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Lets schemathesis ask the HTTP door of a siwatch at work whatever /openapi.json allows, and what it does not.
# Ends with 1 for an answer that the document does not describe, for a wrong request that is taken, and for an error of the server.
#
#   scripts/test_http.sh SIWATCH SIWATCH-SIMULATOR [OPTION OF SCHEMATHESIS]...
#
# Needs `st` (PyPI: schemathesis) on the PATH.
set -eu

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

command -v st >/dev/null || { echo "schemathesis is missing: pip install schemathesis" >&2 && exit 2; }
siwatch=$(realpath "$1")
simulator=$(realpath "$2")
shift 2
cd "$folder"
"$simulator" --print-config >siwatch.toml 2>simulator.log &
started="$started $!"
waited_for '^keys_endpoint' siwatch.toml
"$siwatch" secret new token backend.token
cat >>siwatch.toml <<'END'
[operations]
listen = ""
socket = ""
[log]
format = "text"
[http]
listen = "127.0.0.1:0"
max_requests_per_second = 1000000
[[http.client]]
name = "schemathesis"
token_files = ["backend.token"]
may = ["notify", "sign_in", "delete", "read"]
END
"$siwatch" migrate --config siwatch.toml >/dev/null 2>&1
"$siwatch" run --config siwatch.toml 2>siwatch.log &
started="$started $!"
waited_for 'event=ready' siwatch.log
address=$(sed -n 's/.*event=door_open address=\([^ ]*\).*/\1/p' siwatch.log)
# There is a change, so that a follower from the beginning does not wait for one as long as it may.
python3 - "http://$address/v1/sign-ins" <<'END'
import json, sys, urllib.request
headers = {"Authorization": f"Bearer {open('backend.token').read().strip()}", "Content-Type": "application/json"}
body = json.dumps({"client_id": "com.example.app", "user_id": "000000.first.0000", "wait": 10})
urllib.request.urlopen(urllib.request.Request(sys.argv[1], body.encode(), headers))
END
# A request may be right by its form and wrong by its meaning: a code that is none, a client that no app has.
st run "http://$address/openapi.json" --header "Authorization: Bearer $(cat backend.token)" \
    --checks all --exclude-checks positive_data_acceptance "$@"
