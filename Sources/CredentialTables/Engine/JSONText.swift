// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

package enum JSONText {
    package static func encode(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    /// Nil if the text does not decode.
    package static func decode<Value: Decodable>(_ text: String, as type: Value.Type = Value.self) -> Value? {
        try? JSONDecoder().decode(type, from: Data(text.utf8))
    }
}
