#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Makes ICU's data small enough to carry, and prints the linker's options for it.

    scripts/small-icu.py FOLDER

A program with Swift's libraries inside holds all of ICU's data, a third of its bytes: the names of every language,
dictionaries that break lines, old encodings. siwatch speaks English and UTF-8. The rest (normalization, host names,
time zones, the calendar) stays. The object of the small data lies in FOLDER, and `--wrap` has the linker take it in
place of the library's. A layout that this script does not know leaves all data in, and says so.
"""
import json
import pathlib
import re
import shlex
import struct
import subprocess
import sys

# The layout: https://unicode-org.github.io/icu/userguide/icu_data/ (common data, "CmnD"), and ICU's ucmndata.h.
OTHER_LANGUAGE = re.compile(r"(?!(?:en|en_US)\.)[a-z]{2,3}(?:_\w+)?\.res")
UNUSED = re.compile(r".*\.(?:cnv|dict)|unames\.icu")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def library() -> pathlib.Path:
    resources = json.loads(output("swiftc", "-print-target-info"))["paths"]["runtimeResourcePath"]
    return pathlib.Path(f"{resources}_static/linux/lib_FoundationICU.a")


def packaged_data(archive: pathlib.Path) -> tuple[str, bytes]:
    """The symbol of the data in the library, and the data."""
    contents = archive.read_bytes()
    symbol = re.search(rb"\0(icudt\d+_dat)\0", contents)
    start = re.search(rb"..\xda\x27\x14\0..\0.\x02\0CmnD", contents, re.DOTALL)
    if not symbol or not start:
        raise ValueError("the library holds no data of a known layout")
    return symbol[1].decode(), contents[start.start() :]


def reduced(data: bytes) -> bytes:
    (header,) = struct.unpack_from("<H", data)
    body = memoryview(data)[header:]
    (count,) = struct.unpack_from("<I", body)
    entries = list(struct.iter_unpack("<II", body[4 : 4 + 8 * count]))
    if count < 1000 or entries != sorted(entries):
        raise ValueError("the table of contents is not as expected")
    kept = []
    # The entries stand in the order of their names. The last, Zulu, is not kept, so its end need not be known.
    for (name, start), (_, end) in zip(entries, entries[1:]):
        path = bytes(body[name : name + 128]).split(b"\0")[0]
        file = path.decode().rsplit("/", 1)[-1]
        if not OTHER_LANGUAGE.fullmatch(file) and not UNUSED.fullmatch(file):
            kept.append((path, bytes(body[start:end])))
    names, contents, table = b"", b"", []
    first = 4 + 8 * len(kept)
    for path, _ in kept:
        table.append(first + len(names))
        names += path + b"\0"
    start = (first + len(names) + 15) // 16 * 16
    packed = struct.pack("<I", len(kept))
    for offset, (_, item) in zip(table, kept):
        packed += struct.pack("<II", offset, start + len(contents))
        contents += item + b"\0" * (-len(item) % 16)
    packed += names
    return data[:header] + packed + b"\0" * (start - len(packed)) + contents


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    symbol, data = packaged_data(library())
    small = reduced(data)
    (folder / "icu.dat").write_bytes(small)
    section = f'.section .rodata\n.globl __wrap_{symbol}\n.p2align 4\n__wrap_{symbol}:\n.incbin "{folder}/icu.dat"\n'
    (folder / "icu.s").write_text(section + '.section .note.GNU-stack,"",%progbits\n')
    subprocess.run(["clang", "-c", f"{folder}/icu.s", "-o", f"{folder}/icu.o"], check=True)
    print(f"-Xlinker --wrap={symbol} -Xlinker", shlex.quote(f"{folder.resolve()}/icu.o"))


try:
    main()
except (OSError, ValueError, subprocess.CalledProcessError) as error:
    print(f"{sys.argv[0]}: all of ICU's data stays in the program: {error}", file=sys.stderr)
