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

    /// As above. Values are strings, numbers, booleans and objects.
    static func encode(members: [String: any Sendable]) -> Data {
        do {
            return try JSONSerialization.data(withJSONObject: members, options: [.sortedKeys, .withoutEscapingSlashes])
        } catch {
            preconditionFailure("\(members) is no JSON: \(error)")
        }
    }

    static func decode<Value: Decodable>(_ type: Value.Type, from bytes: Data) throws -> Value {
        try JSONDecoder().decode(type, from: bytes)
    }
}

/// Base64 with the alphabet of URLs and without padding: RFC 4648 section 5, as RFC 7515 uses it.
enum Base64URL {
    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString(options: [.base64URLAlphabet, .omitPaddingCharacter])
    }

    /// The bytes, or `nil` if a character is outside the alphabet. Padding is outside it.
    static func decode(_ text: some StringProtocol) -> Data? {
        guard !text.contains(where: { "+/=".contains($0) }) else { return nil }
        let standard = String(text).replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: standard + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4))
    }
}
