// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A table of the TOML file, with its keys in order.
struct ConfigurationTable: Equatable, Sendable {
    /// Not a dictionary, because two keys that are equal in Unicode are two keys in TOML.
    private var entries: [Entry] = []

    private struct Entry: Equatable {
        var key: String
        var value: ConfigurationValue
    }

    var keys: [String] { entries.map(\.key) }

    subscript(key: String) -> ConfigurationValue? {
        entries.first { $0.key == key }?.value
    }

    mutating func append(_ key: String, _ value: ConfigurationValue) {
        entries.append(Entry(key: key, value: value))
    }
}

/// A value by its TOML type. For a type that no key takes, only the type is kept.
enum ConfigurationValue: Equatable, Sendable {
    case string(String)
    case integer(Int)
    case boolean(Bool)
    case float, date, time, dateTime
    case list([ConfigurationValue])
    case table(ConfigurationTable)
}

extension ConfigurationValue {
    var string: String? {
        if case .string(let text) = self { text } else { nil }
    }

    var integer: Int? {
        if case .integer(let number) = self { number } else { nil }
    }

    var boolean: Bool? {
        if case .boolean(let value) = self { value } else { nil }
    }

    var list: [ConfigurationValue]? {
        if case .list(let elements) = self { elements } else { nil }
    }

    var table: ConfigurationTable? {
        if case .table(let table) = self { table } else { nil }
    }

    /// The type of the value, for a sentence.
    var kind: String {
        switch self {
        case .string: "a string"
        case .integer: "an integer"
        case .float: "a floating-point number"
        case .boolean: "a boolean"
        case .date: "a date"
        case .time: "a time"
        case .dateTime: "a date-time"
        case .list: "a list"
        case .table: "a table"
        }
    }
}
