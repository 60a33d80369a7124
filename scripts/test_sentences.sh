# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Sentences that hold or do not, of a siwatch under systemd. For scripts of scripts/boot_debian.sh, which source it.

# How many do not hold.
failures=0

# holds SENTENCE COMMAND...
holds() {
    sentence=$1
    shift
    if "$@" >/tmp/said 2>&1; then
        echo "✓ $sentence"
    else
        echo "✗ $sentence"
        cat /tmp/said
        failures=$((failures + 1))
    fi
}

# within SECONDS COMMAND...: repeats the command until it succeeds.
within() {
    end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# The code blocks of a language in a section of a page and in the sections below it, without a list's indentation.
blocks() {
    awk -v language="$1" -v section="$2" '
        /^#+ / && !code { if ($0 == section) { inside = 1; depth = length($1) } else if (length($1) <= depth) inside = 0 }
        inside && $1 == "```" language { indent = index($0, "`") - 1; code = 1; next }
        code && $1 == "```" { code = 0; print ""; next }
        code { print substr($0, indent + 1) }' "$3"
}

shown() { systemctl show -P "$1" siwatch; }
is() { [ "$(shown "$1")" = "$2" ] || { echo "$1 is $(shown "$1")" && false; }; }
says() { journalctl -q -u siwatch --since "@$began" --grep "$1" >/dev/null; }
is_ready() { [ "$(curl -s http://127.0.0.1:9464/readyz)" = ok ]; }
