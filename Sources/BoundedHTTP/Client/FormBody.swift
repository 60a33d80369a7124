// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The fields of an `application/x-www-form-urlencoded` body, in order.
package struct FormBody: Sendable, Equatable, ExpressibleByDictionaryLiteral {
    package var fields: [Field]

    package struct Field: Sendable, Equatable {
        package var name: String
        package var value: Secret

        package init(name: String, value: Secret) {
            self.name = name
            self.value = value
        }
    }

    package init(_ fields: [Field]) {
        self.fields = fields
    }

    package init(dictionaryLiteral fields: (String, Secret)...) {
        self.init(fields.map { Field(name: $0.0, value: $0.1) })
    }

    /// The body as sent. It percent-encodes all but the unreserved characters of RFC 3986, a space as `%20`. Apple's TN3107 names missing
    /// encoding as a cause of `invalid_client`.
    package var encoded: [UInt8] {
        var encoded: [UInt8] = []
        encoded.reserveCapacity(fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.reveal.utf8.count + 2 })
        for field in fields {
            if !encoded.isEmpty { encoded.append(UInt8(ascii: "&")) }
            Self.append(field.name, to: &encoded)
            encoded.append(UInt8(ascii: "="))
            Self.append(field.value.reveal, to: &encoded)
        }
        return encoded
    }

    private static func append(_ text: String, to encoded: inout [UInt8]) {
        let isUnreserved = Self.isUnreserved
        guard !text.utf8.allSatisfy({ isUnreserved[Int($0)] }) else { return encoded += text.utf8 }
        for byte in text.utf8 {
            if isUnreserved[Int(byte)] {
                encoded.append(byte)
            } else {
                encoded += "%\(byte.hexadecimal.uppercased())".utf8
            }
        }
    }

    /// By byte.
    private static let isUnreserved = (UInt8.min...UInt8.max).map { $0.isLetterOrDigit || "-._~".utf8.contains($0) }
}
