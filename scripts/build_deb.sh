#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Packs the programs that `make deb` has built as .build/siwatch_VERSION_ARCHITECTURE.deb, with a package of the symbols and one of the
# simulator beside it.
#
#   scripts/build_deb.sh [PROGRAM [CHECKOUTS]]
#
#   PROGRAM      .build/siwatch, with PROGRAM.debug and PROGRAM-simulator beside it
#   CHECKOUTS    .build/checkouts, the sources of the libraries inside: their licenses go with the program
#
# DEBFULLNAME and DEBEMAIL name the maintainer. The same commit and program give the same package.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
program=${1:-$root/.build/siwatch}
checkouts=${2:-$root/.build/checkouts}
version=$(cat "$root/VERSION")
schema=$(sed -n 's/^[^/]*version: \([0-9]*\),.*/\1/p' "$root/Sources/CredentialTables/Tables/Tables.swift" | sort -n | tail -1)
maintainer="${DEBFULLNAME:-The siwatch authors} <${DEBEMAIL:-siwatch@siwatch.invalid}>"
work=$root/.build/deb/siwatch-$version
debian=$work/debian
install=$work/install

die() {
    printf 'build_deb: %s\n' "$*" >&2
    exit 1
}

[ -e "$program" ] && [ -e "$program.debug" ] || die "$program or $program.debug is not there: run make release"
build_id=$(LC_ALL=C readelf --notes "$program" | sed -n 's/^ *Build ID: //p')
[ -n "$build_id" ] || die "$program has no build id, by which a debugger finds its symbols"
[ "$("$program" --version)" = "$version" ] || die "$program is not of version $version: run make release"
[ -e "$program-simulator" ] || die "$program-simulator is not there: run make deb"
[ -n "$schema" ] || die "Tables.swift has no version"
[ -d "$checkouts" ] || die "$checkouts is not there: it has the licenses of the libraries inside"

# The time of the commit, which files of `git archive` have.
if [ -e "$root/.git" ]; then committed=$(git -C "$root" log -1 --format=%ct); else committed=$(stat -c %Y "$root/VERSION"); fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$committed}
export SOURCE_DATE_EPOCH

# page FILE [FOLDER]: a page, with the links as the pages lie in the package. FOLDER leads up to the others, as ../ does. A link to
# a file that the package lacks becomes plain text.
page() {
    up=${2:-}
    sed -e 's|](\(docs/\)\{0,1\}README.md|](index.md|g' -e 's|](docs/|](|g' -e 's|](\.\./README.md|](README.md|g' \
        -e "s|](\(\.\./\)*etc/|](${up}examples/|g" -e "s|](\(\.\./\)*CHANGELOG.md|](${up}CHANGELOG.md|g" -e "s|](\.\./docs/|](${up}|g" \
        -e 's|`Clients/|`/usr/share/doc/siwatch/clients/|g' -e 's|`Examples/|`/usr/share/doc/siwatch/examples/|g' \
        -e "s|](\(\.\./\)*Examples/|](${up}examples/|g" -e "s|](\(\.\./\)*Clients/|](${up}clients/|g" \
        -e 's#\[\([^][]*\)\](\(\.\./\)*\(packaging\|Instruments\|CONTRIBUTING\|SECURITY\|LICENSE\)[^)]*)#\1#g' "$1"
}

# A unit, with the paths of a package.
unit() {
    sed -e 's|/usr/local/|/usr/|g' -e 's|^Documentation=|Documentation=man:siwatch(8) |' "$1"
}

# license TITLE FILE: Debian has the text of Apache's in a place of its own. What follows it there is an exception to it.
license() {
    printf '\n--- %s\n\n' "$1"
    if grep -q 'Apache License' "$2" && grep -q 'Definitions' "$2"; then
        echo "Apache License 2.0: /usr/share/common-licenses/Apache-2.0"
        sed -n '/Runtime Library Exception/,$p' "$2"
    else
        cat "$2"
    fi
}

licenses() {
    for library in "$checkouts"/*/; do
        for file in "$library"LICENSE* "$library"NOTICE* "$library"Sources/*/LICENSE*; do
            [ ! -f "$file" ] || license "$(basename "$library"): ${file#"$library"}" "$file"
        done
    done
    printf '\n--- toml++, in TOMLKit\n\n'
    sed -n '/^\/\/ MIT License/,/^\/\/---/s/^\/\/[- ]*//p' "$checkouts/TOMLKit/Sources/CTOML/Sources/toml.hpp"
    swift=$(command -v swift) || return 0
    swift=$(dirname "$(readlink -f "$swift")")/../share/swift/LICENSE.txt
    [ ! -f "$swift" ] || license "Swift and its libraries" "$swift"
}

rm -rf "$work"
mkdir -p "$debian" "$install/docs/guides" "$install/completions" "$install/manuals"
install -m 755 "$program" "$install/siwatch"
install -D -m 644 "$program.debug" "$install/debug/.build-id/$(echo "$build_id" | cut -c 1-2)/$(echo "$build_id" | cut -c 3-).debug"

# README.md is the one of the root there, and the index of the pages is index.md.
for file in "$root"/docs/*.md "$root/docs/llms.txt" "$root/README.md"; do page "$file" >"$install/docs/$(basename "$file")"; done
page "$root/docs/README.md" >"$install/docs/index.md"
cp "$root/docs/page.png" "$install/docs"
page "$root/CHANGELOG.md" >"$install/CHANGELOG.md"
for file in "$root"/docs/guides/*.md; do page "$file" ../ >"$install/docs/guides/$(basename "$file")"; done
sed -i 's|](index.md|](README.md|g' "$install"/docs/guides/*.md
cp -r "$root/Examples" "$install/examples"
# With what the links in it lead to.
cp -rL "$root/Clients" "$install/docs/clients"
sed -i "s/^{\$/{\n  \"version\": \"$version\",/" "$install/docs/clients/javascript/package.json"
page "$root/Examples/README.md" ../ >"$install/examples/README.md"
page "$root/Clients/README.md" ../ >"$install/docs/clients/README.md"
# What a run or an installation leaves there.
find "$install/examples" "$install/docs/clients" \( -name __pycache__ -o -name node_modules -o -name '.?*' -o -name '*.egg-info' -o -name '*.sqlite*' \
    -o -path '*/python/build' \) -prune -exec rm -r {} +
mkdir -p "$install/fixtures/python" "$install/simulator-docs" "$install/simulator-manuals"
install -m 755 "$program-simulator" "$install/siwatch-simulator"
cp "$root/packaging/simulator/README.md" "$install/fixtures"
(cd "$install/docs/clients/python" && cp -r siwatch siwatch_pytest.py simulated_apple.py "$install/fixtures/python")
cp -r "$install/docs/clients/javascript" "$install/fixtures"
rm "$install"/fixtures/javascript/*test.mjs "$install/fixtures/javascript/check.mjs"
# The other pages are in the package siwatch.
sed 's#](\([a-z-]*\.md\)#](../siwatch/\1#g' "$install/docs/simulator.md" >"$install/simulator-docs/simulator.md"
"$root/packaging/make_manuals.sh" --simulator "$program-simulator" "$version" "$install/simulator-manuals"
cp "$root/etc/siwatch.toml" "$install/examples"
cp "$root/docs/configuration.toml" "$install/docs"
install -D -m 644 -t "$install/examples/prometheus" "$root/etc/prometheus/siwatch.rules.yml"
install -D -m 644 -t "$install/examples/grafana" "$root/etc/grafana/siwatch.json"

# It is read by a shell, not run.
"$program" --generate-completion-script bash | sed '1{/^#!/d}' >"$install/completions/siwatch"
"$program" --generate-completion-script zsh >"$install/completions/_siwatch"
"$program" --generate-completion-script fish >"$install/completions/siwatch.fish"
"$root/packaging/make_manuals.sh" "$program" "$root/docs/configuration.toml" "$install/manuals"

cp "$root"/packaging/debian/* "$debian"
sed -i "s/@SCHEMA@/$schema/" "$debian/siwatch.preinst"
sed -i "s/@MAINTAINER@/$maintainer/; s/@BUILD_ID@/$build_id/" "$debian/control"
licenses >>"$debian/copyright"
cat >"$debian/changelog" <<END
siwatch ($version) unstable; urgency=medium

  * /usr/share/doc/siwatch/CHANGELOG.md says what changes.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
cp "$root/systemd/sysusers.d/siwatch.conf" "$debian/siwatch.sysusers"
cp "$root/systemd/tmpfiles.d/siwatch.conf" "$debian/siwatch.tmpfiles"
unit "$root/systemd/siwatch.service" >"$debian/siwatch.service"
for name in siwatch-backup siwatch-health; do
    for kind in service timer; do unit "$root/systemd/$name.$kind" >"$debian/siwatch.$name.$kind"; done
done

(cd "$work" && fakeroot debian/rules binary) >"$work.log" 2>&1 || { tail -20 "$work.log" >&2 && die "$work.log has the whole output"; }
for file in "$root/.build/deb/"siwatch*_"${version}"_*.deb; do
    mv "$file" "$root/.build"
    printf '.build/%s (%s)\n' "$(basename "$file")" "$(du -h "$root/.build/$(basename "$file")" | cut -f 1)"
done
lintian --allow-root --profile debian --fail-on error,warning "$root/.build/"siwatch*_"${version}"_*.deb
