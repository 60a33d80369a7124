#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Installs, upgrades, removes and purges the package, in the container of scripts/test_package.sh, on both stores. Apple is not there.
# Prints a line for each sentence that holds or does not. Ends with the number of the latter.
set -u
cd /site || exit
file=/var/lib/siwatch/siwatch.sqlite
configuration=/etc/siwatch/siwatch.toml
noted=/run/siwatch-upgrade

. scripts/test_sentences.sh

# MARK: What is asked of packages

installed() { dpkg-query --show --showformat='${Version} ${db:Status-Status}' siwatch; }
is_installed() { [ "$(installed)" = "$1" ] || { installed && false; }; }

# put FILE: installs a package, and keeps what it says.
put() {
    dpkg --install "$1" >/tmp/put 2>&1
    put_status=$?
    cat /tmp/put
    return $put_status
}
told() { grep -q -- "$1" /tmp/put || { cat /tmp/put && false; }; }
did_not_tell() { ! told "$1"; }

# other NEW COMMAND: the package, after a command in its unpacked folder.
other() {
    rm -rf /tmp/other
    dpkg-deb --raw-extract siwatch.deb /tmp/other
    (cd /tmp/other && eval "$2") && dpkg-deb --root-owner-group -Znone --build /tmp/other "$1" >/dev/null
}

pid() { shown MainPID; }
remember() { before=$(pid); }
is_same_process() { is MainPID "$before" && is ActiveState active; }
is_new_process() { is ActiveState active && [ "$(pid)" != "$before" ]; }

other /tmp/newer.deb 'sed -i "s/^Version: .*/&+1/" DEBIAN/control'

# MARK: What is asked of siwatch

# A backend is www-data, a member of the group siwatch-backend, or a role of the server.
ask() {
    case $store in
        file) sudo -u www-data sqlite3 -cmd '.timeout 10000' "$file" "$1" ;;
        server) sudo -u www-data env PGOPTIONS='-c search_path=siwatch' psql -qAt -h /var/run/postgresql app -c "$1" ;;
    esac
}

# A sign-in without a token needs no answer of Apple's.
users=0
sign_in() {
    users=$((users + 1))
    ask "INSERT INTO grant_queue (client_id, user_id) VALUES ('com.example.app', 'user-$users')"
}
are_authorized() { [ "$(ask "SELECT COUNT(*) FROM user_state WHERE state = 'authorized'")" = "$1" ]; }
holds_sign_in() { holds "$1" eval 'sign_in && within 20 are_authorized $users'; }
copies() { ls /var/backups/siwatch/before-* 2>/dev/null; }

# MARK: First installation

store=file
first=$(date +%s%N)
holds "the package installs" put siwatch.deb
holds "it names the next step" told 'sudo siwatch init'
holds "it enables and starts nothing" eval '! systemctl is-enabled siwatch siwatch-backup.timer siwatch-health.timer && is ActiveState inactive'
holds "siwatch is in both groups" eval 'id siwatch | grep "gid=[0-9]*(siwatch) .*(siwatch-backend)"'
holds "the folders are the groups'" eval '[ "$(stat -c %a:%U:%G /etc/siwatch /var/lib/siwatch /var/backups/siwatch | tr "\n" " ")" = "750:siwatch:siwatch 2770:siwatch:siwatch-backend 700:siwatch:siwatch " ]'

key=/tmp/AuthKey_ABC123DEFG.p8
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $key 2>/dev/null
set_up_by_hand() {
    install -o siwatch -g siwatch -m 600 $key /etc/siwatch/
    printf '%s\n' '[[app]]' 'name = "example"' 'team_id = "A1B2C3D4E5"' 'client_ids = ["com.example.app"]' \
        '[[app.key]]' 'id = "ABC123DEFG"' 'file = "AuthKey_ABC123DEFG.p8"' | install -o siwatch -g siwatch -m 600 /dev/stdin $configuration
    sudo -u siwatch siwatch migrate && usermod -aG siwatch-backend www-data
    systemctl enable --now siwatch
}
if siwatch help | grep -q '^  init '; then
    holds "siwatch init sets it up" siwatch init --yes --offline --team-id A1B2C3D4E5 --key $key --client-id com.example.app --app example --backend-user www-data
    is ActiveState active >/dev/null || holds "the unit starts" systemctl enable --now siwatch
else
    holds "this siwatch has no init: set up by hand" set_up_by_hand
fi
holds "it is ready" within 30 is_ready
echo "  from dpkg -i to READY: $((($(date +%s%N) - first) / 1000000)) ms"
holds_sign_in "a backend inserts a sign-in and reads it"
holds "the database is the backends'" eval '[ "$(stat -c %a:%U:%G $file $file.lock | uniq)" = 660:siwatch:siwatch-backend ]'
chmod 600 $file
holds "systemd-tmpfiles sets the modes again" eval 'systemd-tmpfiles --create siwatch.conf; [ "$(stat -c %a:%U:%G $file)" = 660:siwatch:siwatch-backend ]'
holds "a backend reads no key" eval '! sudo -u www-data ls /etc/siwatch'
holds "the nightly copy works" eval 'systemctl start siwatch-backup && ls /var/backups/siwatch/siwatch-*.sqlite'
holds "the health is in the journal" eval 'systemctl start siwatch-health; journalctl -q -u siwatch-health --grep "^(healthy|degraded|down)"'
holds "the manual is there" eval 'ls /usr/share/man/man8/siwatch.8.gz /usr/share/man/man8/siwatch-doctor.8.gz /usr/share/man/man5/siwatch.toml.5.gz'
systemctl enable --now siwatch-backup.timer siwatch-health.timer 2>/dev/null

# MARK: Upgrades

upgrades() {
    remember
    holds "$store: an upgrade succeeds" put /tmp/newer.deb
    holds "$store: the new process is ready" eval 'is_new_process && within 30 is_ready'
    holds_sign_in "$store: a backend goes on"
    holds "$store: the units are enabled as before" systemctl is-enabled siwatch

    sed -i 's/^team_id/team_ids/' $configuration
    remember
    holds "$store: an upgrade beside a broken configuration succeeds" put siwatch.deb
    holds "$store: the old process stays" is_same_process
    holds "$store: the mistake is told" told team_ids
    holds_sign_in "$store: the old process works on"
    sed -i 's/^team_ids/team_id/' $configuration
    holds "$store: mended, a restart takes the new version" eval 'systemctl restart siwatch && is_new_process && within 30 is_ready'
}

upgrades

by_credentials() {
    install -d -m 700 /etc/keys /etc/systemd/system/siwatch.service.d
    mv /etc/siwatch/*.p8 /etc/siwatch/siwatch.key /etc/keys
    printf '%s\n' '[Service]' 'LoadCredential=AuthKey_ABC123DEFG.p8:/etc/keys/AuthKey_ABC123DEFG.p8' \
        'LoadCredential=siwatch.key:/etc/keys/siwatch.key' >/etc/systemd/system/siwatch.service.d/keys.conf
    systemctl daemon-reload && systemctl restart siwatch && within 30 is_ready
}
holds "keys by LoadCredential: it runs" by_credentials
remember
holds "keys by LoadCredential: an upgrade succeeds" put /tmp/newer.deb
holds "keys by LoadCredential: the new process is ready" eval '{ is_new_process && within 30 is_ready; } || told nothing'
mv /etc/keys/* /etc/siwatch
rm -r /etc/systemd/system/siwatch.service.d
systemctl daemon-reload
systemctl restart siwatch

remember
systemctl kill --signal=KILL siwatch
holds "systemd waits before it starts a killed siwatch again" within 5 is ActiveState activating
holds "an upgrade meanwhile succeeds" put /tmp/newer.deb
holds "the new process is ready" eval '{ is_new_process && within 30 is_ready; } || told nothing'

systemctl stop siwatch
holds "a stopped siwatch is upgraded and not started" eval 'put /tmp/newer.deb && is ActiveState inactive'
systemctl start siwatch

# MARK: Upgrades that change the tables

# The older release, as far as the package knows it: the program that tells version 1, makes copies, and runs.
older() {
    cat >usr/bin/siwatch <<'END'
#!/bin/sh
case $1 in
    migrate) echo "warning: a sample" >&2 && echo "-- /var/lib/siwatch/siwatch.sqlite is up to date, with schema version 1." ;;
    backup) cp -n /var/lib/siwatch/siwatch.sqlite "$2" && echo "$2: copied" ;;
    run) systemd-notify --ready && exec sleep infinity ;;
esac
END
    sed -i 's/^Version: .*/Version: 0.0.9/' DEBIAN/control
    sed -i 's/^new_schema=.*/new_schema=1/' DEBIAN/preinst
    sed -i 's/^Type=notify/&\nNotifyAccess=all/; s/^WatchdogSec=.*//' usr/lib/systemd/system/siwatch.service
}

# The newer one, whose tables have another version, as far as its package knows.
other /tmp/changed.deb "sed -i 's/^new_schema=.*/new_schema=2/' DEBIAN/preinst"

version_of_tables() { sqlite3 $file 'PRAGMA user_version'; }
systemctl stop siwatch
other /tmp/older.deb older
put /tmp/older.deb >/dev/null
rm -f $(copies)
rm -f $file*
cp v1.sqlite $file
# Its rows are those of another configuration and another sealing key.
for table in $(sqlite3 $file "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> 'grdb_migrations'"); do
    sqlite3 $file "DELETE FROM $table"
done
chown siwatch:siwatch-backend $file
chmod 660 $file
holds "an older release runs, with tables of version 1" eval 'systemctl start siwatch && [ "$(version_of_tables)" = 1 ]'

mv /var/backups/siwatch /var/backups/kept
ln -s /nowhere /var/backups/siwatch
remember
holds "without a copy of the database there is no upgrade" eval '! put /tmp/changed.deb'
holds "it says so" told 'nothing is upgraded and nothing has changed'
holds "the older release is installed and runs" eval 'is_installed "0.0.9 installed" && is_same_process'
rm /var/backups/siwatch
mv /var/backups/kept /var/backups/siwatch

systemctl disable siwatch 2>/dev/null
holds "an upgrade that changes the tables succeeds" put /tmp/changed.deb
holds "it has made a copy first" eval 'copies && [ "$(sqlite3 "$(copies)" "PRAGMA user_version")" = 1 ]'
holds "the new process works on the tables, though the unit is disabled" eval '{ is_new_process && within 30 is_ready; } || told nothing'
holds "the unit stays disabled" eval '! systemctl is-enabled siwatch'
systemctl enable siwatch 2>/dev/null
holds "nothing is noted any more" eval '[ ! -e $noted ]'

# MARK: An installation by hand

cp /usr/bin/siwatch /usr/local/bin/siwatch
sed 's|/usr/bin/|/usr/local/bin/|' /usr/lib/systemd/system/siwatch.service >/etc/systemd/system/siwatch.service
systemctl daemon-reload
systemctl restart siwatch
usermod -aG siwatch www-data
remember
holds "beside an installation by hand the package upgrades" put /tmp/newer.deb
holds "it names the files and how to go over" told 'sudo rm /usr/local/bin/siwatch /etc/systemd/system/siwatch.service'
holds "it says that the database has another group" told 'given the database to the group siwatch-backend'
holds "it names a backend in the group of the keys" told 'sudo gpasswd -d www-data siwatch'
holds "siwatch doctor names it too" eval 'sudo -u siwatch siwatch doctor --before-start 2>&1 | grep "sudo gpasswd -d www-data siwatch"'
gpasswd -d www-data siwatch >/dev/null
holds "it leaves the process and the files" eval 'is_same_process && [ -e /etc/systemd/system/siwatch.service ]'
holds "a removal leaves the unit that is not the package's" eval 'dpkg --remove siwatch && is_same_process'
put /tmp/newer.deb >/dev/null
rm /usr/local/bin/siwatch /etc/systemd/system/siwatch.service
systemctl daemon-reload
holds "without those files the package's unit runs" eval 'systemctl restart siwatch && within 30 is_ready && shown FragmentPath | grep "^\(/usr\)\?/lib/"'

# MARK: PostgreSQL, by a socket

store=server
users=0
cluster() {
    version=$(ls /usr/lib/postgresql)
    pg_createcluster "$version" main && systemctl start "postgresql@$version-main" && sudo -u postgres createdb app &&
        blocks sql '## Set up' docs/postgresql.md | awk '/^$/ { exit } { print }' | sudo -u postgres psql -q -v ON_ERROR_STOP=1 app &&
        sed -i '/^\[database\]/d; /^path = /d' $configuration &&
        printf '\n[database]\nurl = "postgresql://siwatch@/app?host=/var/run/postgresql"\n' >>$configuration &&
        sudo -u siwatch siwatch migrate &&
        sudo -u postgres psql -q app -c 'CREATE ROLE "www-data" LOGIN; GRANT siwatch_backend TO "www-data"'
}
systemctl stop siwatch
put siwatch.deb >/dev/null
holds "server: the set-up of docs/postgresql.md" cluster
holds "server: it starts" eval 'systemctl start siwatch && within 30 is_ready'
holds_sign_in "server: a backend inserts a sign-in and reads it"
upgrades
# What the installed program says of the next release's tables.
other /tmp/next.deb "sed -i 's/^new_schema=.*/new_schema=99/' DEBIAN/preinst"
holds "server: before a change of the tables, the command for a copy is told" eval 'put /tmp/next.deb && told pg_dump && [ ! -e $noted ]'

# MARK: The end

holds "a removal stops siwatch and its timers" eval 'dpkg --remove siwatch && is ActiveState inactive && ! systemctl is-active siwatch-backup.timer siwatch-health.timer'
holds "it keeps the data" eval 'ls $file $configuration /etc/siwatch/siwatch.key'
holds "installed again, siwatch starts with its data" eval 'put /tmp/newer.deb && systemctl start siwatch && within 30 is_ready && are_authorized $users'
holds "a purge succeeds" eval 'dpkg --purge siwatch >/tmp/put 2>&1'
holds "it names the folders that stay, and the command that removes them" told 'sudo rm -r /var/lib/siwatch /etc/siwatch /var/backups/siwatch'
holds "it keeps the data" eval 'ls $file $configuration /etc/siwatch/siwatch.key && id siwatch'
holds "it leaves no enabled unit" eval '! find /etc/systemd/system -name "siwatch*" | grep .'

[ $failures -eq 0 ] || journalctl -q --no-pager -u siwatch | tail -50
exit $failures
