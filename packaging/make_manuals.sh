#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
#
# Writes siwatch(8), a page for each command, and siwatch.toml(5), from what the program and the reference of its configuration say.
#
#   packaging/make_manuals.sh PROGRAM REFERENCE FOLDER
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
program=$(readlink -f "$1") reference=$2 folder=$3
version=$("$program" --version)
speaker=$(mktemp)
trap 'rm -f "$speaker"' EXIT

# help2man runs a program, and reads the headings of GNU's.
cat >"$speaker" <<'END'
#!/bin/sh
case $1 in
    --version) echo "$NAME $VERSION" ;;
    --help)
        "$PROGRAM" help $COMMAND |
            sed -e '1s/^OVERVIEW: //' -e 's/^USAGE: /Usage: /' -e 's/^OPTIONS:$/Options:/' -e 's/^ARGUMENTS:$/Arguments:/' \
                -e 's/^SUBCOMMANDS:$/Commands:/' -e 's/^\([A-Z]\)\([A-Z ]*\) SUBCOMMANDS:$/\1\L\2:/' -e "s/^  See 'siwatch help .*//" ;;
esac
END
chmod 755 "$speaker"

# page NAME COMMAND HELP2MAN-OPTIONS...
page() {
    name=$1 command=$2
    shift 2
    # The first paragraph.
    about=$("$program" help $command | sed -e '/^$/,$d' -e 's/^OVERVIEW: //' | tr '\n' ' ' | sed 's/\. *$//')
    NAME=$name PROGRAM=$program COMMAND=$command VERSION=$version help2man --no-info --section=8 --manual='siwatch' --source="siwatch $version" \
        --name="$about" "$@" "$speaker" >"$folder/$name.8"
}

page siwatch '' --include="$here/siwatch.h2m"
for command in $("$program" help | awk '/SUBCOMMANDS:$/ { inside = 1; next } inside && /^  [a-z]/ { print $1 }'); do
    page "siwatch-$command" "$command" --include="$here/siwatch-command.h2m"
done

{
    printf '.TH SIWATCH.TOML 5 "" "siwatch %s" siwatch\n' "$version"
    cat "$here/siwatch.toml.5.head"
    # A backslash and a leading dot mean something to troff.
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/" "$reference"
    printf '.fi\n.SH SEE ALSO\n.BR siwatch (8),\n.BR siwatch\\-doctor (8)\n'
} >"$folder/siwatch.toml.5"
