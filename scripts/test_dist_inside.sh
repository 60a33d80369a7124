#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Installs the packages and then the tarball of a release, in the container of scripts/test_dist.py, and sees that the programs work there.
# Prints a line for each sentence that holds or does not. Ends with the number of the latter.
set -u
cd /site || exit
configuration=/etc/siwatch/siwatch.toml

. scripts/test_sentences.sh

# MARK: The packages

holds "the two packages install" dpkg --install siwatch_*.deb siwatch-simulator_*.deb
holds "the fixtures are there" eval \
    '(cd /usr/share/siwatch-simulator && ls README.md python/siwatch_pytest.py python/siwatch/__init__.py javascript/siwatch-testing.mjs)'
holds "the manual of the simulator is there" ls /usr/share/man/man1/siwatch-simulator.1.gz

# In a folder of somebody who is not root. The pair listens on ports of its own choice.
as_person() { (cd /tmp/person && sudo -u nobody env HOME=/tmp/person "$@"); }
install -d -o nobody /tmp/person
as_person siwatch-simulator --print-config >/tmp/person.toml 2>/tmp/person.log &
holds "the simulator prints a configuration" within 10 grep -q keys_endpoint /tmp/person.toml

holds "it listens" within 10 grep -q "listening on" /tmp/person.toml
simulated=$(sed -n 's/^# .*listening on //p' /tmp/person.toml)
cp /tmp/person.toml /tmp/person/siwatch.toml
holds "somebody who is not root runs siwatch against it" as_person siwatch run --once --config siwatch.toml
holds "a person signs in at the simulator" eval 'curl -sf -d "{\"count\": 1}" "$simulated/simulator/users" | grep -q refresh_token'
pkill -TERM -u nobody siwatch-simulat

as_person siwatch-simulator dev >/tmp/dev.log 2>&1 &
# A line of the three that dev shows, as a person pastes it.
paste() { grep '^curl ' /tmp/dev.log | sed -n "$1p" | sh; }
holds "siwatch-simulator dev shows three curl lines" within 60 eval '[ "$(grep -c "^curl " /tmp/dev.log)" = 3 ]'
holds "the first signs in" eval 'paste 1 | grep applied'
holds "the second says that the session goes on" eval 'paste 2 | grep false'
holds "consent is withdrawn" as_person siwatch-simulator trigger consent-revoked
holds "the session ends by itself within a minute" within 60 eval 'paste 2 | grep true'
holds "the third deletes" eval 'paste 3 | grep -v "\"status\": *4"'
pkill -TERM -u nobody siwatch-simulat
holds "it ends, and siwatch with it" within 15 eval '! pgrep -u nobody siwatch'
holds "it leaves nothing" eval '! ls -d /tmp/siwatch-dev-*'
holds "the symbols install beside the program" dpkg --install siwatch-dbgsym_*.deb
holds "the packages are removed" dpkg --purge siwatch siwatch-dbgsym siwatch-simulator

# MARK: The tarball

# Without what the packages have left.
systemctl daemon-reload
userdel siwatch 2>/dev/null
rm -rf /etc/siwatch /var/lib/siwatch /var/backups/siwatch
holds "the tarball unpacks" tar -xzf siwatch-*-linux-*.tar.gz
cd siwatch-*-linux-*/ || exit
blocks sh '## Install' INSTALL.md >/tmp/install.sh
holds "INSTALL.md installs it" sh -eu /tmp/install.sh
key=/tmp/AuthKey_ABC123DEFG.p8
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $key 2>/dev/null
holds "siwatch init sets it up" /usr/local/bin/siwatch init --yes --offline \
    --team-id A1B2C3D4E5 --key $key --client-id com.example.app --app example
is ActiveState active >/dev/null || holds "the unit starts" systemctl enable --now siwatch
holds "it is ready" within 30 is_ready
holds "the unit is that of the tarball" is FragmentPath /etc/systemd/system/siwatch.service
holds "the manual is there" eval '(cd /usr/local/share/man && ls man8/siwatch.8 man5/siwatch.toml.5 man1/siwatch-simulator.1)'
holds "it says its version" eval '[ "$(/usr/local/bin/siwatch --version)" = "$(basename "$PWD" | cut -d - -f 2)" ]'
blocks sh '## Remove' INSTALL.md >/tmp/remove.sh
holds "INSTALL.md removes it" sh -eu /tmp/remove.sh
holds "the configuration stays" ls $configuration

[ $failures -eq 0 ] || journalctl -q --no-pager -u siwatch | tail -30
exit $failures
