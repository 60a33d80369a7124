// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What one table of the file says.
protocol ConfigurationPart {
    init()
    mutating func read(_ table: inout TableReader)
}

/// One TOML table while it is read.
///
/// Each key that is asked for becomes a known key. A wrong value is noted and the default stays, so that one pass finds every mistake. A
/// decoder would stop at the first mistake, report a wrong type as a missing key, and skip unknown keys.
struct TableReader {
    private let table: ConfigurationTable
    /// The place of the table, as in `app[0].key[1]`. Empty for the file itself.
    private let path: String
    /// The table's name in a header, as in `app.key`.
    private let name: String
    private var known: Set<String> = []
    private var mistakes: [ConfigurationMistake] = []

    /// Reads a key that may be absent.
    mutating func read<Value>(_ key: String, _ rule: ValueRule<Value>, into target: inout Value) {
        guard let value = value(of: key) else { return }
        if let value = rule.read(value, place(of: key), &mistakes) { target = value }
    }

    /// Reads a key that must be there.
    mutating func require<Value>(_ key: String, _ rule: ValueRule<Value>, into target: inout Value) {
        read(key, rule, into: &target)
        if table[key] == nil { note(.at(place(of: key), "is missing")) }
    }

    /// Whether the key is there, with a right or a wrong value.
    func has(_ key: String) -> Bool { table[key] != nil }

    /// Reads a table that may be absent: `[key]`.
    mutating func table(_ key: String, _ body: (inout TableReader) -> Void) {
        guard let value = value(of: key) else { return }
        read(value, at: place(of: key), name: name(of: key), body)
    }

    /// Reads tables: `[[key]]`. Where the key is there, or must be, there is at least one.
    mutating func tables<Part: ConfigurationPart>(_ key: String, into parts: inout [Part], mayBeMissing: Bool = false) {
        let (place, name) = (place(of: key), name(of: key))
        guard let value = value(of: key) else {
            if !mayBeMissing { note(.at(place, "is missing: at least one [[\(name)]] is needed")) }
            return
        }
        guard let elements = value.list else {
            return note(.at(place, "must be a list of tables, each under a header [[\(name)]]"))
        }
        if elements.isEmpty { note(.at(place, "is empty: at least one [[\(name)]] is needed")) }
        for (index, element) in elements.enumerated() {
            read(element, at: "\(place)[\(index)]", name: name) { table in
                var part = Part()
                part.read(&table)
                parts.append(part)
            }
        }
    }

    mutating func note(_ mistake: ConfigurationMistake) {
        mistakes.append(mistake)
    }

    /// All mistakes, including unknown keys.
    consuming func finish() -> [ConfigurationMistake] {
        mistakes
            + table.keys.filter { !known.contains($0) }.map { key -> ConfigurationMistake in
                let near = key.nearest(among: known.subtracting(table.keys)).map { "; did you mean \($0)?" } ?? ""
                return .at(place(of: key), "is not a key that siwatch knows\(near)")
            }
    }

    private mutating func value(of key: String) -> ConfigurationValue? {
        known.insert(key)
        return table[key]
    }

    private mutating func read(
        _ value: ConfigurationValue,
        at path: String,
        name: String,
        _ body: (inout TableReader) -> Void
    ) {
        guard let table = value.table else { return note(.at(path, "must be a table, not \(value.kind)")) }
        var reader = TableReader(table: table, path: path, name: name)
        body(&reader)
        mistakes += reader.finish()
    }

    private func name(of key: String) -> String {
        name.isEmpty ? key : "\(name).\(key)"
    }

    private func place(of key: String) -> String {
        let isBare = !key.isEmpty && key.utf8.allSatisfy { $0.isLetterOrDigit || "-_".utf8.contains($0) }
        // Quoted, so that control characters do not reach the terminal.
        return (path.isEmpty ? "" : path + ".") + (isBare ? key : String(reflecting: key))
    }
}

extension TableReader {
    init(_ file: ConfigurationTable) {
        self.init(table: file, path: "", name: "")
    }
}

/// The place where each name first appears.
struct FirstPlaces {
    private var places: [String: String] = [:]

    /// Notes a name that appears once more. An empty name is noted as a mistake already.
    mutating func enter(_ name: String, at place: String, in table: inout TableReader) {
        guard !name.isEmpty else { return }
        if let first = places[name] {
            table.note(.at(place, "is the same as \(first)"))
        } else {
            places[name] = place
        }
    }
}
