// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto

/// The names of users in logs: the first 12 hex digits of an HMAC-SHA-256 of the `sub`. Only holders of the key file can find the lines
/// about a user. They are the database's own, and no sealing key changes them.
package struct UserPseudonyms: Sendable {
    private let key: SymmetricKey

    init(_ key: SymmetricKey) { self.key = key }

    package func pseudonym(of userID: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Array(userID.utf8), using: key)
        return code.prefix(6).map(\.hexadecimal).joined()
    }
}

/// Proves to `siwatch doctor --intake` that its request has come to a siwatch on the same database. A question is
/// `{"siwatch_test":"NONCE.MAC"}`, and the answer the MAC of another text with the same nonce. It tells of nobody and changes nothing.
package struct IntakeTestKey: Sendable {
    private let key: SymmetricKey

    private static let head = "{\"siwatch_test\":\""
    private static let tail = "\"}"
    private static let longest = 256

    init(_ key: SymmetricKey) { self.key = key }

    /// - Parameter nonce: of letters and digits.
    package func question(_ nonce: String) -> String {
        "\(Self.head)\(nonce).\(code("question", nonce))\(Self.tail)"
    }

    package func answer(_ nonce: String) -> String { code("answer", nonce) }

    /// - Returns: nil if the body is no question, or one under another key.
    package func answer(to body: [UInt8]) -> String? {
        guard body.count <= Self.longest, body.starts(with: Self.head.utf8) else { return nil }
        let text = String(decoding: body, as: UTF8.self)
        guard text.hasSuffix(Self.tail) else { return nil }
        let parts = text.dropFirst(Self.head.count).dropLast(Self.tail.count).split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let given = SHA256.hash(data: Array(parts[1].utf8))
        // Digests compare in constant time.
        guard given == SHA256.hash(data: Array(code("question", String(parts[0])).utf8)) else { return nil }
        return answer(String(parts[0]))
    }

    private func code(_ purpose: String, _ nonce: String) -> String {
        HMAC<SHA256>.authenticationCode(for: Array("\(purpose).\(nonce)".utf8), using: key).map(\.hexadecimal).joined()
    }
}
