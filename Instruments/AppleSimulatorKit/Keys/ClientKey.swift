// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Crypto

/// A private key that signs client secrets. The developer portal hands it out once, in a file `AuthKey_<id>.p8`.
package struct ClientKey: Sendable {
    /// The ten characters of the `kid` of a client secret.
    package let id: String
    package let privateKey: P256.Signing.PrivateKey

    package init(id: String, privateKey: P256.Signing.PrivateKey) { (self.id, self.privateKey) = (id, privateKey) }

    /// Reads the text of a `.p8` file, which is PKCS #8 in PEM.
    package init(id: String, pem: String) throws { try self.init(id: id, privateKey: P256.Signing.PrivateKey(pemRepresentation: pem)) }
    package static func generate(id: String = "ABC123DEFG") -> ClientKey { ClientKey(id: id, privateKey: P256.Signing.PrivateKey()) }

    /// The text of the `.p8` file: `-----BEGIN PRIVATE KEY-----`, as Apple's.
    package var pem: String { privateKey.pemRepresentation }

    /// The public half that Apple keeps.
    package var registered: RegisteredKey { RegisteredKey(id: id, publicKey: privateKey.publicKey) }
}

/// The half of a client key that stays with Apple: it verifies client secrets.
package struct RegisteredKey: Sendable {
    package let id: String
    package let publicKey: P256.Signing.PublicKey

    package init(id: String, publicKey: P256.Signing.PublicKey) { (self.id, self.publicKey) = (id, publicKey) }
}
