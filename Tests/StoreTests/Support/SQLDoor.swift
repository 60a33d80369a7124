// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Plain SQL for all but the daemon, over a connection of its own if the store has one.
protocol SQLDoor: Sendable {
    func run(_ sql: String, _ arguments: [SQLValue]) async throws
    func rows(_ sql: String, _ arguments: [SQLValue]) async throws -> [[SQLValue]]
    func refuseWrites(to column: String, of table: String) async throws
    func allowWrites(to table: String) async throws
}

enum SQLValue: Sendable, Hashable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])

    static func at(_ time: Timestamp) -> SQLValue { .integer(time.milliseconds) }
    init(_ text: String?) { self = text.map(Self.text) ?? .null }
    init(_ flag: Bool?) { self = flag.map { .integer($0 ? 1 : 0) } ?? .null }
    var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    var text: String? { if case .text(let value) = self { value } else { nil } }
}

extension SQLValue: ExpressibleByNilLiteral, ExpressibleByIntegerLiteral, ExpressibleByStringLiteral {
    init(nilLiteral: ()) { self = .null }
    init(integerLiteral value: Int64) { self = .integer(value) }
    init(stringLiteral value: String) { self = .text(value) }
}

extension SQLValue: CustomTestStringConvertible {
    var testDescription: String {
        switch self {
        case .null: "NULL"
        case .integer(let value): "\(value)"
        case .text(let value): "'\(value)'"
        case .bytes(let value): "x'\(value.map { String($0, radix: 16) }.joined(separator: " "))'"
        }
    }
}
