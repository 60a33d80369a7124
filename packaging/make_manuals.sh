#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Writes siwatch(8), a page for each command, and siwatch.toml(5), from what the program and the reference of its configuration say.
# Of a simulator it writes siwatch-simulator(1) alone.
#
#   packaging/make_manuals.sh PROGRAM REFERENCE FOLDER
#   packaging/make_manuals.sh --simulator PROGRAM VERSION FOLDER
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
kind=
if [ "$1" = --simulator ]; then
    kind=$1
    shift
fi
program=$(readlink -f "$1") reference=$2 folder=$3
version=$([ -n "$kind" ] && echo "$2" || "$program" --version)
speaker=$(mktemp)
trap 'rm -f "$speaker"' EXIT

# help2man runs a program, and reads the headings of GNU's.
cat >"$speaker" <<'END'
#!/bin/sh
case $1 in
    --version) echo "$NAME $VERSION" ;;
    --help)
        "$PROGRAM" $COMMAND --help |
            sed -e '1s/^OVERVIEW: //' -e 's/^USAGE: /Usage: /' -e 's/^OPTIONS:$/Options:/' -e 's/^ARGUMENTS:$/Arguments:/' \
                -e 's/^SUBCOMMANDS:$/Commands:/' -e 's/^\([A-Z]\)\([A-Z ]*\) SUBCOMMANDS:$/\1\L\2:/' -e "s/^  See 'siwatch help .*//" ;;
esac
END
chmod 755 "$speaker"

# page NAME SECTION COMMAND HELP2MAN-OPTIONS...
page() {
    name=$1 section=$2 command=$3
    shift 3
    # The first paragraph.
    about=$("$program" $command --help | sed -e '/^$/,$d' -e 's/^OVERVIEW: //' | tr '\n' ' ' | sed 's/\. *$//')
    NAME=$name PROGRAM=$program COMMAND=$command VERSION=$version help2man --no-info --section="$section" --manual='siwatch' --source="siwatch $version" \
        --name="$about" "$@" "$speaker" >"$folder/$name.$section"
}

if [ -n "$kind" ]; then
    page siwatch-simulator 1 '' --include="$here/siwatch-simulator.h2m"
    exit
fi

page siwatch 8 '' --include="$here/siwatch.h2m"
for command in $("$program" help | awk '/SUBCOMMANDS:$/ { inside = 1; next } inside && /^  [a-z]/ { print $1 }'); do
    page "siwatch-$command" 8 "$command" --include="$here/siwatch-command.h2m"
done

{
    printf '.TH SIWATCH.TOML 5 "" "siwatch %s" siwatch\n' "$version"
    cat "$here/siwatch.toml.5.head"
    # A backslash and a leading dot mean something to troff.
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/" "$reference"
    printf '.fi\n.SH SEE ALSO\n.BR siwatch (8),\n.BR siwatch\\-doctor (8)\n'
} >"$folder/siwatch.toml.5"
