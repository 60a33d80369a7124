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
            if byte.isLetterOrDigit || "-._~".utf8.contains(byte) {
                encoded.append(byte)
            } else {
                encoded += "%\(byte.hexadecimal.uppercased())".utf8
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}
