// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Which key stands on which line of a TOML document.
///
/// It is a hint for the person who mends the file: TOMLKit keeps no lines, and a syntax error has no key. It reads headers and keys where a
/// line begins, and of a value only where its strings and brackets end, so that a document with mistakes has lines too.
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
        var scanner = Scanner(rest: Array(text.utf8)[...])
        var table = ""
        /// How many tables a list has up to here, by the list's path.
        var tables: [String: Int] = [:]
        while true {
            scanner.skipBlanks()
            let line = scanner.line
            switch scanner.rest.first {
            case nil:
                return
            case UInt8(ascii: "["):
                let isElement = scanner.rest.dropFirst().first == UInt8(ascii: "[")
                let name = scanner.take { $0 != UInt8(ascii: "]") }.drop { $0 == "[" }
                var parts = name.split(separator: ".").map { $0.trimming(while: \.isWhitespace) }
                guard let last = parts.popLast(), name.utf8.allSatisfy(Self.isOfName) else { break }
                table = parts.reduce(into: "") { path, part in
                    path += (path.isEmpty ? "" : ".") + part
                    if let count = tables[path] { path += "[\(count - 1)]" }
                }
                table += (table.isEmpty ? "" : ".") + last
                if isElement {
                    tables[table, default: 0] += 1
                    table += "[\(tables[table]! - 1)]"
                }
                keys.append((table, line))
            default:
                let key = scanner.take { $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: "#") }.trimming(while: \.isWhitespace)
                if scanner.rest.first == UInt8(ascii: "="), !key.isEmpty, key.utf8.allSatisfy(Self.isOfName) {
                    keys.append(((table.isEmpty ? "" : table + ".") + key, line))
                }
            }
            scanner.skipValue()
        }
    }

    /// Whether a name that siwatch knows can have the byte. A private key that somebody pasted without quotation marks is not of such bytes,
    /// so no hint quotes it.
    private static func isOfName(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || "_. ".utf8.contains(byte)
    }
}

/// Bytes that are read once, and the line that they are on.
private struct Scanner {
    var rest: ArraySlice<UInt8>
    var line = 1

    mutating func skipBlanks() {
        while let byte = rest.first,
            byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n")
        {
            skip(1)
        }
    }

    /// Takes bytes of this line while they satisfy `isPart`.
    mutating func take(while isPart: (UInt8) -> Bool) -> String {
        let part = rest.prefix { $0 != UInt8(ascii: "\n") && isPart($0) }
        rest = rest.dropFirst(part.count)
        return String(decoding: part, as: UTF8.self)
    }

    /// Skips the rest of a line, and further lines as long as a bracket or a string is open.
    mutating func skipValue() {
        var depth = 0
        while let byte = rest.first {
            switch byte {
            case UInt8(ascii: "\n") where depth <= 0:
                return skip(1)
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                skip(1)
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                depth -= 1
                skip(1)
            case UInt8(ascii: "#"):
                _ = take { _ in true }
            case UInt8(ascii: "\""), UInt8(ascii: "'"):
                skipString(of: byte)
            default:
                skip(1)
            }
        }
    }

    private mutating func skipString(of quote: UInt8) {
        let isLong = rest.starts(with: [quote, quote, quote])
        let end = [UInt8](repeating: quote, count: isLong ? 3 : 1)
        skip(end.count)
        while let byte = rest.first, isLong || byte != UInt8(ascii: "\n") {
            if rest.starts(with: end) { return skip(end.count) }
            skip(byte == UInt8(ascii: "\\") && quote == UInt8(ascii: "\"") ? 2 : 1)
        }
    }

    private mutating func skip(_ count: Int) {
        line += rest.prefix(count).count { $0 == UInt8(ascii: "\n") }
        rest = rest.dropFirst(count)
    }
}

extension StringProtocol {
    fileprivate func trimming(while isTrimmed: (Character) -> Bool) -> String {
        String(drop(while: isTrimmed).reversed().drop(while: isTrimmed).reversed())
    }
}
