// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto
import JWTKit

/// The private key that signs an app's client secrets, as Apple issues it: `AuthKey_<key id>.p8`.
package struct ClientSecretKey: Sendable, Equatable {
    package let id: String
    let privateKey: ES256PrivateKey

    /// - Parameter text: the content of the file as OpenSSL reads it: one PEM block of PKCS#8 or SEC 1, whatever stands around it and wherever
    ///   its lines end, also with `\n` for a line's end, or base64 alone.
    /// - Throws: a sentence for the operator, without any of the key.
    package init(id: String, text: Secret) throws(UnusableClientSecretKey) {
        let text = text.reveal.replacing("\\r", with: "").replacing("\\n", with: "\n")
        let blocks = text.matches(of: /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----([^-]*)/)
        let remedy = "give the AuthKey_\(id).p8 file as Apple issued it"
        if blocks.isEmpty, text.contains("-----BEGIN ") {
            throw UnusableClientSecretKey(description: "key \(id) is not a private key; \(remedy)")
        }
        guard blocks.count < 2 else {
            throw UnusableClientSecretKey(description: "the file of key \(id) holds several private keys; \(remedy)")
        }
        let body = (blocks.first?.1 ?? text[...]).filter { !$0.isWhitespace && !"\"'=\u{feff}".contains($0) }
        guard let der = Base64URL.decode(body.replacing("+", with: "-").replacing("/", with: "_").utf8),
            let key = try? P256.Signing.PrivateKey(derRepresentation: der), let privateKey = try? ES256PrivateKey(backing: key)
        else {
            let words = blocks.isEmpty ? "in PEM, base64 or DER; \(remedy)" : "on P-256: it is damaged, encrypted or of another kind"
            throw UnusableClientSecretKey(description: "key \(id) is not a private key \(words)")
        }
        (self.id, self.privateKey) = (id, privateKey)
    }

    /// Distinguishes this key and team from another key with the same id. It reveals nothing about the key.
    func fingerprint(with teamID: String) -> String {
        SHA256.hash(data: Array("\(teamID)\n\(privateKey.publicKey.pemRepresentation)".utf8)).prefix(4).map(\.hexadecimal).joined()
    }
}

package struct UnusableClientSecretKey: Error, Equatable, CustomStringConvertible {
    package let description: String
}
