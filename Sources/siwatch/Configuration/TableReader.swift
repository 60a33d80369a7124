// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import TOMLKit

protocol ConfigurationPart {
    init()
    mutating func read(_ table: inout TableReader)
}

/// One TOML table while it is read.
///
/// Each key that is asked for becomes a known key. A wrong value is noted and the default stays, so that one pass finds every mistake. A
/// decoder would stop at the first mistake, report a wrong type as a missing key, and skip unknown keys.
struct TableReader {
    private let table: TOMLTable
    /// The place of the table, as in `app[0].key[1]`. Empty for the file itself.
    private let path: String
    /// The table's name in a header, as in `app.key`.
    private let name: String
    private let document: Document
    private var known: Set<String> = []

    private final class Document {
        var mistakes: [ConfigurationMistake] = []
        /// The values of all keys, as text, by their places.
        var values: [String: String] = [:]
        /// The place where each name first appears, by the kind of name.
        var firstPlaces: [String: [String: String]] = [:]
        let names: FileNames

        init(_ names: FileNames) {
            self.names = names
        }
    }

    var names: FileNames { document.names }
    var mistakes: [ConfigurationMistake] { document.mistakes }
    var values: [String: String] { document.values }

    static func read(_ part: inout some ConfigurationPart, from file: TOMLTable, _ names: FileNames) -> TableReader {
        var root = TableReader(table: file, path: "", name: "", document: Document(names))
        part.read(&root)
        root.noteUnknownKeys()
        return root
    }

    mutating func read<Value>(_ key: String, _ rule: ValueRule<Value>, into target: inout Value) {
        if let value = value(of: key), let value = rule.read(value, place(of: key), &document.mistakes) { target = value }
        document.values[place(of: key)] = "\(target)"
    }

    mutating func require<Value>(_ key: String, _ rule: ValueRule<Value>, into target: inout Value) {
        read(key, rule, into: &target)
        if table[key] == nil { note(key, "is missing") }
    }

    func has(_ key: String) -> Bool { table[key] != nil }

    /// Reads a table that may be absent: `[key]`.
    mutating func table(_ key: String, _ body: (inout TableReader) -> Void) {
        read(value(of: key) ?? TOMLTable().tomlValue, at: place(of: key), name: name(of: key), body)
    }

    /// Reads tables: `[[key]]`. Where the key is there, or must be, there is at least one.
    mutating func tables<Part: ConfigurationPart>(_ key: String, into parts: inout [Part], mayBeMissing: Bool = false) {
        let (place, name) = (place(of: key), name(of: key))
        guard let value = value(of: key) else {
            for index in parts.indices {
                read(TOMLTable().tomlValue, at: "\(place)[\(index)]", name: name) { parts[index].read(&$0) }
            }
            if !mayBeMissing, parts.isEmpty { note(key, "is missing: at least one [[\(name)]] is needed") }
            return
        }
        guard let elements = value.array else { return note(key, "must be a list of tables, each under a header [[\(name)]]") }
        if elements.isEmpty { note(key, "is empty: at least one [[\(name)]] is needed") }
        for (index, element) in elements.enumerated() {
            read(element.tomlValue, at: "\(place)[\(index)]", name: name) { table in
                var part = Part()
                part.read(&table)
                parts.append(part)
            }
        }
    }

    /// - Parameter problem: the end of a sentence that begins with the key's place.
    func note(_ key: String, _ problem: String) { note(at: place(of: key), problem) }

    func note(at place: String, _ problem: String) { document.mistakes.append(.at(place, problem)) }

    /// Notes a name that stands in an earlier table of the same list too. An empty one is noted as a mistake already.
    func distinguish(_ key: String, _ value: String) {
        distinguish(value, at: place(of: key), among: "\(path.prefix(upTo: path.lastIndex(of: "[") ?? path.endIndex)).\(key)")
    }

    /// Notes elements of a list that stand there twice, or if `everywhere` in another list under the same key.
    func distinguish(_ key: String, _ values: [String], everywhere: Bool = false) {
        for (index, value) in values.enumerated() {
            distinguish(value, at: "\(place(of: key))[\(index)]", among: everywhere ? key : place(of: key))
        }
    }

    private func distinguish(_ value: String, at place: String, among kind: String) {
        if value.isEmpty { return }
        if let first = document.firstPlaces[kind]?[value] {
            note(at: place, "is the same as \(first)")
        } else {
            document.firstPlaces[kind, default: [:]][value] = place
        }
    }

    private func noteUnknownKeys() {
        // By `keys`, because TOMLKit's iterator traps on a key that its C strings cut short.
        let keys = table.keys
        for key in keys where !known.contains(key) {
            let near = key.nearest(among: known.subtracting(keys)).map { "; did you mean \($0)?" } ?? ""
            note(key, "is not a key that siwatch knows\(near)")
        }
    }

    private mutating func value(of key: String) -> TOMLValue? {
        known.insert(key)
        return table[key]?.tomlValue
    }

    private func read(_ value: TOMLValue, at path: String, name: String, _ body: (inout TableReader) -> Void) {
        guard let table = value.table else { return note(at: path, "must be a table, not \(value.kind)") }
        var reader = TableReader(table: table, path: path, name: name, document: document)
        body(&reader)
        reader.noteUnknownKeys()
    }

    private func name(of key: String) -> String { name.isEmpty ? key : "\(name).\(key)" }

    private func place(of key: String) -> String {
        let isBare = !key.isEmpty && key.utf8.allSatisfy { $0.isLetterOrDigit || "-_".utf8.contains($0) }
        // Quoted, so that control characters do not reach the terminal.
        return (path.isEmpty ? "" : path + ".") + (isBare ? key : String(reflecting: key))
    }
}
