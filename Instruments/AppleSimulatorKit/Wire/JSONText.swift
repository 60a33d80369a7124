// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// JSON with sorted names, so that equal values have equal bytes, and with plain slashes, as Apple's has.
enum JSONText {
    /// Cannot fail, because JSON can express all our values.
    static func encode(_ value: some Encodable) -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return try encoder.encode(value)
        } catch {
            preconditionFailure("\(type(of: value)) is no JSON: \(error)")
        }
    }

    static func decode<Value: Decodable>(_ type: Value.Type, from bytes: Data) throws -> Value {
        try JSONDecoder().decode(type, from: bytes)
    }
}

/// A boolean claim in one of the two forms that Apple has used.
enum Flag: Sendable, Encodable {
    case string(Bool)
    case bool(Bool)

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .string(let value): try container.encode(value ? "true" : "false")
        case .bool(let value): try container.encode(value)
        }
    }
}
