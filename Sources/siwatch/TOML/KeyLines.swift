// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Which key stands on which line of a TOML document.
///
/// It is a hint for the person who mends the file: TOMLKit keeps no lines, and a syntax error has no key. It reads headers and keys where a
/// line begins, and of a value only where its brackets end, so that a document with mistakes has lines too.
struct KeyLines {
    private var keys: [(path: String, line: Int)] = []

    /// The line of a path such as `app[0].key[1].file`, or the nearest line above it: a key that is missing has the line of its table.
    func line(of path: String) -> Int? {
        var path = path[...]
        while !path.isEmpty {
            if let key = keys.first(where: { $0.path == path }) { return key.line }
            guard let end = path.lastIndex(where: { $0 == "." || $0 == "[" }) else { return nil }
            path = path[..<end]
        }
        return nil
    }

    /// The key, or the table, that a line belongs to.
    func key(at line: Int) -> String? {
        keys.last { $0.line <= line }?.path
    }

    init(_ text: String) {
        var table = ""
        /// How many tables a list has up to here, by the list's path.
        var tables: [String: Int] = [:]
        /// How many brackets of a value are open.
        var depth = 0
        for (index, bytes) in text.outline.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            let line = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
            if depth == 0, line.hasPrefix("[") {
                let name = line.prefix { $0 != "]" }.drop { $0 == "[" }
                var parts = name.split(separator: ".").map { $0.trimmingCharacters(in: .whitespaces) }
                guard let last = parts.popLast(), name.utf8.allSatisfy(Self.isOfName) else { continue }
                table = parts.reduce(into: "") { path, part in
                    path += (path.isEmpty ? "" : ".") + part
                    if let count = tables[path] { path += "[\(count - 1)]" }
                }
                table += (table.isEmpty ? "" : ".") + last
                if line.hasPrefix("[[") {
                    tables[table, default: 0] += 1
                    table += "[\(tables[table]! - 1)]"
                }
                keys.append((table, index + 1))
            } else if let value = depth > 0 ? line.startIndex : line.firstIndex(of: "=") {
                let key = line[..<value].trimmingCharacters(in: .whitespaces)
                if !key.isEmpty, key.utf8.allSatisfy(Self.isOfName) {
                    keys.append(((table.isEmpty ? "" : table + ".") + key, index + 1))
                }
                for character in line[value...] {
                    if "[{".contains(character) { depth += 1 }
                    if "]}".contains(character) { depth = max(depth - 1, 0) }
                }
            }
        }
    }

    /// Whether a name that siwatch knows can have the byte. A private key that somebody pasted without quotation marks is not of such bytes,
    /// so no hint quotes it.
    private static func isOfName(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || "_. ".utf8.contains(byte)
    }
}
