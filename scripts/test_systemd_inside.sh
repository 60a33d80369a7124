#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Installs siwatch as README.md says, in the container of scripts/test_systemd.sh, and sees what the unit does on both stores.
# Prints a line for each sentence that holds or does not. Ends with the number of the latter.
set -u
cd /site
began=0
apple=http://localhost:9900
file=/var/lib/siwatch/siwatch.sqlite
configuration=/etc/siwatch/siwatch.toml

. scripts/test_sentences.sh

# A backend is www-data, a member of the group siwatch-backend, or a role of the server.
ask() {
    case $store in
        file) sudo -u www-data sqlite3 -cmd '.timeout 10000' "$file" "$1" ;;
        server) sudo -u www-data env PGOPTIONS='-c search_path=siwatch' psql -qAt -h /var/run/postgresql app -c "$1" ;;
    esac
}

# The users that Apple was asked about and has confirmed.
confirmed() { ask "SELECT COUNT(*) FROM user_state WHERE state = 'authorized' AND verified_at IS NOT NULL"; }
are_confirmed() { [ "$(confirmed)" = "$1" ]; }

member() { printf %s "$answer" | sed "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/"; }
sign_in() {
    answer=$(curl -sf -d '{"count": 1}' $apple/simulator/users) &&
        ask "INSERT INTO grant_queue (client_id, user_id, refresh_token, granted_at)
             VALUES ('$(member client_id)', '$(member user_id)', '$(member refresh_token)', $(member granted_at))"
}

users=0
holds_insert() {
    users=$((users + 1))
    holds "$1" sign_in
}
holds_confirmed() { holds "$1: Apple confirms it, and the backend reads that" within 60 are_confirmed $users; }

# systemd goes on without a part of the sandbox that it cannot set up.
is_confined() {
    grep -q '^Umask:.0077' "/proc/$1/status" && grep -q '^Seccomp:.2' "/proc/$1/status" && [ "$(wc -l <"/proc/$1/uid_map")" -gt 1 ] &&
        [ "$(readlink "/proc/$1/ns/mnt")" != "$(readlink /proc/1/ns/mnt)" ]
}

restarted() { is NRestarts "$1" && is ActiveState active; }

life() {
    began=$(date +%s)
    holds_insert "$1: a backend inserts a sign-in beforehand"
    holds "$1: systemctl start waits for READY=1" systemctl start siwatch
    holds "$1: it is ready" within 10 is_ready
    holds "$1: the sandbox leaves it its metrics" eval 'curl -s http://127.0.0.1:9464/metrics | grep -q "^process_start_time_seconds "'
    holds "$1: it is confined" is_confined "$(shown MainPID)"
    holds "$1: it tells systemd its figures" within 60 eval 'shown StatusText | grep -q authorized'
    holds_confirmed "$1"
    before=$(shown MainPID)
    holds "$1: status is the daemon's own word" eval 'siwatch status | grep "^  process *$before on .* ready$"'
    holds "$1: it is healthy" siwatch status --line
    sed -i 's/^team_id/team_ids/' $configuration
    holds "$1: status is so beside a broken file too" eval 'siwatch status | grep "^  process *$before on .* ready$"'
    holds "$1: a reload with a mistake fails" eval '! systemctl reload siwatch'
    sed -i 's/^team_ids/team_id/' $configuration
    sed -i 's/^level = "[a-z]*"/level = "trace"/' $configuration
    holds "$1: systemctl reload" eval 'systemctl reload siwatch || { sleep 1; journalctl -q --no-pager -u siwatch | tail -5; false; }'
    holds "$1: the reload is taken over" within 10 says event=reloaded
    holds "$1: the process is the same" is MainPID "$before"
    kill -STOP "$(shown MainPID)"
    holds "$1: the watchdog restarts a frozen process" within 60 restarted 1
    kill -KILL "$(shown MainPID)"
    holds "$1: a killed process is restarted" within 60 restarted 2
    holds "$1: the state is kept" are_confirmed $users
    holds_insert "$1: a backend inserts a sign-in"
    holds_confirmed "$1"
    holds "$1: Swift's runtime complains of nothing" eval '! says "thread priority"'
    holds "$1: systemctl stop" systemctl stop siwatch
    holds "$1: health says that it is down" within 60 eval 'sudo -u siwatch siwatch status --line; [ $? -eq 2 ]'
    holds "$1: it stopped in order" eval 'is Result success && is ExecMainStatus 0 && says "siwatch has stopped"'
}

systemd-run -q --unit=apple --working-directory=/site /site/siwatch-simulator --port 9900
within 60 curl -sfo /dev/null $apple/simulator/clock || echo "the simulated Apple does not start"

# The steps of README.md, and before them what an operator brings along.
cat >/tmp/steps <<END
make() { :; }
sudoedit() {
    printf '%s\n' '[apple]' 'token_endpoint = "$apple/auth/token"' 'revocation_endpoint = "$apple/auth/revoke"' \
        'keys_endpoint = "$apple/auth/keys"' >>"\$1"
}
END
blocks sh '### By hand' README.md >>/tmp/steps
install -d /etc/systemd/system/siwatch.service.d
# Seconds in place of a minute.
printf '[Service]\nWatchdogSec=10\nRestartSec=0\n' >/etc/systemd/system/siwatch.service.d/test.conf
holds "the steps of README.md" sh -e /tmp/steps
systemctl stop siwatch

store=file
rm $file.lock
life "file"
holds "file: the doctor sees that the backend can write" eval 'sudo -u siwatch siwatch doctor --as www-data; sudo -u siwatch siwatch doctor --as www-data | grep "^ok *www-data can write"'
holds "file: and that another user cannot" eval 'sudo -u siwatch siwatch doctor --as nobody | grep "^wrong *nobody "'
holds "file: the group may write the database and take its lock" eval '[ "$(stat -c %a:%G $file $file.lock | uniq)" = 660:siwatch-backend ]'

# MARK: Keys by LoadCredential

install -d -m 700 /etc/keys
mv /etc/siwatch/AuthKey_ABC123DEFG.p8 /etc/siwatch/siwatch.key /etc/keys
cat >/etc/systemd/system/siwatch.service.d/keys.conf <<END
[Service]
LoadCredential=AuthKey_ABC123DEFG.p8:/etc/keys/AuthKey_ABC123DEFG.p8
LoadCredential=siwatch.key:/etc/keys/siwatch.key
END
chown -R root:root /etc/keys
systemctl daemon-reload
life "file, keys by LoadCredential"
mv /etc/keys/* /etc/siwatch
chown siwatch:siwatch /etc/siwatch/*
rm /etc/systemd/system/siwatch.service.d/keys.conf
systemctl daemon-reload

# MARK: PostgreSQL, by a socket

store=server
users=0
cluster() {
    version=$(ls /usr/lib/postgresql)
    pg_createcluster "$version" main && systemctl start "postgresql@$version-main" && sudo -u postgres createdb app &&
        blocks sql '## Set up' docs/postgresql.md | awk '/^$/ { exit } { print }' | sudo -u postgres psql -q -v ON_ERROR_STOP=1 app &&
        sed -i 's|^path = .*|url = "postgresql://siwatch@/app?host=/var/run/postgresql"|' $configuration &&
        sudo -u siwatch siwatch migrate &&
        sudo -u postgres psql -q app -c 'CREATE ROLE "www-data" LOGIN; GRANT siwatch_backend TO "www-data"'
}
holds "server: the set-up of docs/postgresql.md" cluster
life "server"

systemd-analyze --no-pager security siwatch | tail -1 | sed 's/^[^A-Za-z]*//'
[ $failures -eq 0 ] || journalctl -q --no-pager -u siwatch | tail -50
exit $failures
