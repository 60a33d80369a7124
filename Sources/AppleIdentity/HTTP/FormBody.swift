// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The fields of an `application/x-www-form-urlencoded` body, in order.
package struct FormBody: Sendable, Equatable, ExpressibleByDictionaryLiteral {
    package var fields: [Field]

    package struct Field: Sendable, Equatable {
        package var name: String
        package var value: Secret
    }

    package init(_ fields: [Field]) {
        self.fields = fields
    }

    package init(dictionaryLiteral fields: (String, Secret)...) {
        self.init(fields.map { Field(name: $0.0, value: $0.1) })
    }

    /// The body as sent. All but the unreserved characters of RFC 3986 are percent-encoded, a space as `%20`: Apple's TN3107 names
    /// missing encoding among the causes of `invalid_client`.
    var encoded: [UInt8] {
        Array(fields.map { "\(Self.encode($0.name))=\(Self.encode($0.value.reveal))" }.joined(separator: "&").utf8)
    }

    private static func encode(_ text: String) -> String {
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                encoded.append(byte)
            default:
                encoded += [UInt8(ascii: "%"), hexDigit(byte >> 4), hexDigit(byte & 15)]
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    private static func hexDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
    }
}
