// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto
import JWTKit

/// The private key that signs an app's client secrets, as Apple issues it: `AuthKey_<key id>.p8`.
package struct ClientSecretKey: Sendable, Equatable {
    /// Ten characters. The header of each secret names it.
    package let id: String
    let privateKey: ES256PrivateKey

    /// - Parameter pem: the content of the file, PKCS#8 in PEM.
    /// - Throws: a sentence for the operator, without any of the key.
    package init(id: String, pem: Secret) throws(UnusableClientSecretKey) {
        guard pem.reveal.contains("-----BEGIN ") else { throw .notPEM(keyID: id) }
        guard pem.reveal.contains("PRIVATE KEY-----") else { throw .notPrivate(keyID: id) }
        guard let privateKey = try? ES256PrivateKey(pem: pem.reveal) else { throw .notP256(keyID: id) }
        self.id = id
        self.privateKey = privateKey
    }

    /// Distinguishes this key and team from another key with the same id. It reveals nothing about the key.
    func fingerprint(with teamID: String) -> String {
        SHA256.hash(data: Array("\(teamID)\n\(privateKey.publicKey.pemRepresentation)".utf8)).prefix(4).map(\.hexadecimal).joined()
    }
}

package enum UnusableClientSecretKey: Error, Equatable, CustomStringConvertible {
    case notPEM(keyID: String)
    case notPrivate(keyID: String)
    case notP256(keyID: String)

    package var description: String {
        switch self {
        case .notPEM(let id): "key \(id) is not in PEM form; give the AuthKey_\(id).p8 file as Apple issued it"
        case .notPrivate(let id): "key \(id) is not a private key; give the AuthKey_\(id).p8 file as Apple issued it"
        case .notP256(let id): "key \(id) cannot be read as a P-256 private key; it is damaged or of another kind"
        }
    }
}
