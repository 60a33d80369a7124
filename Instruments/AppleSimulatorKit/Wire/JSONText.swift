// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// JSON as this program writes it: sorted names, so that equal values have equal bytes, and plain slashes, as Apple's have.
enum JSONText {
    /// Our own values hold nothing that JSON cannot say, so that this cannot fail.
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
