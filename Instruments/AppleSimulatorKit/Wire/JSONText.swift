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

/// Base64 with the alphabet of URLs and without padding: RFC 4648 section 5, as RFC 7515 uses it.
enum Base64URL {
    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString(options: [.base64URLAlphabet, .omitPaddingCharacter])
    }

    /// The bytes, or `nil` if a character is outside the alphabet. Padding is outside it.
    static func decode(_ text: some StringProtocol) -> Data? {
        var base64 = [UInt8]()
        base64.reserveCapacity(text.utf8.count + 2)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "-"): base64.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): base64.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
            default: base64.append(byte)
            }
        }
        while base64.count % 4 != 0 { base64.append(UInt8(ascii: "=")) }
        return Data(base64Encoded: Data(base64))
    }
}
