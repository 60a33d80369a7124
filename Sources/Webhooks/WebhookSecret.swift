// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto
import Foundation

/// A secret of Standard Webhooks 1.0: `whsec_` and 24 to 64 bytes in base64.
package struct WebhookSecret: Sendable {
    private let key: SymmetricKey

    /// Nil if the text is no such secret.
    package init?(_ text: Secret) {
        let prefix = "whsec_"
        guard text.reveal.hasPrefix(prefix), let bytes = Data(base64Encoded: String(text.reveal.dropFirst(prefix.count))),
            (24...64).contains(bytes.count)
        else { return nil }
        key = SymmetricKey(data: bytes)
    }

    /// `v1,` and the HMAC-SHA-256 of `id.timestamp.body`.
    func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
        let signed = Data("\(id).\(timestamp).".utf8) + body
        return "v1," + Data(HMAC<SHA256>.authenticationCode(for: signed, using: key)).base64EncodedString()
    }
}
