// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The fields of an `application/x-www-form-urlencoded` body, in order.
package struct FormBody: Sendable, ExpressibleByDictionaryLiteral {
    package var fields: [(name: String, value: Secret)]

    package init(dictionaryLiteral fields: (String, Secret)...) {
        self.fields = fields.map { ($0.0, $0.1) }
    }

    /// The body as sent. It percent-encodes all but the unreserved characters of RFC 3986, a space as `%20`. Apple's TN3107 names missing
    /// encoding as a cause of `invalid_client`.
    package var encoded: [UInt8] {
        Array(fields.map { "\(Self.encoded($0.name))=\(Self.encoded($0.value.reveal))" }.joined(separator: "&").utf8)
    }

    private static func encoded(_ text: String) -> String {
        let isUnreserved = Self.isUnreserved
        guard !text.utf8.allSatisfy({ isUnreserved[Int($0)] }) else { return text }
        let bytes = text.utf8.flatMap { isUnreserved[Int($0)] ? [$0] : Array("%\($0.hexadecimal.uppercased())".utf8) }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// By byte.
    private static let isUnreserved = (UInt8.min...UInt8.max).map { $0.isLetterOrDigit || "-._~".utf8.contains($0) }
}
