// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Which key stands on which line of a TOML document.
///
/// A hint for the person who mends the file: TOMLKit keeps no lines, and a syntax error has no key. It reads headers and keys where a line
/// begins, so that a document with mistakes has lines too.
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
    func key(at line: Int) -> String? { keys.last { $0.line <= line }?.path }

    /// A name has the characters of those that siwatch knows. A private key that somebody pasted without quotation marks has others, so no
    /// hint quotes it.
    init(_ text: String) {
        var table = ""
        /// How many tables a list has up to here, by the list's path.
        var tables: [String: Int] = [:]
        var depth = 0
        let lines = text.outline.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
        for (number, line) in zip(1..., lines.map(String.init)) {
            if depth == 0, let header = line.prefixMatch(of: /[ \t]*\[(\[?)([a-z_. \t]+)(?:\]|$)/) {
                let parts = header.2.split(separator: ".").map { $0.trimmingCharacters(in: .whitespaces) }
                table = ""
                for (index, part) in parts.enumerated() {
                    table += (table.isEmpty ? "" : ".") + part
                    if index == parts.count - 1, !header.1.isEmpty { tables[table, default: 0] += 1 }
                    if let count = tables[table] { table += "[\(count - 1)]" }
                }
                keys.append((table, number))
                continue
            }
            if depth == 0, let key = line.prefixMatch(of: /[ \t]*([a-z_.]+)[ \t]*=/)?.1 {
                keys.append(((table.isEmpty ? "" : table + ".") + key, number))
            }
            depth = max(0, depth + line.count { "[{".contains($0) } - line.count { "]}".contains($0) })
        }
    }
}
