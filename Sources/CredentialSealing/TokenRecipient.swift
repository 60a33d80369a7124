// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto
import Foundation

/// The key pair to which backends seal tokens, so that no token stands in a queue in clear: HPKE (RFC 9180) in base mode, with
/// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305.
///
///     version 1 │ key id 4 │ granted_at 8 │ encapsulated key 32 │ ciphertext n │ tag 16
///
/// The private key is derived from a sealing key and the installation, so that only the key file has to be kept, and what was sealed for
/// another database does not open. The key id is the first four bytes of the SHA-256 of the public key, so that a backend can compute it.
/// The associated data is `client_id`, `user_id` and `granted_at` in decimal, with a NUL between them. The bytes name `granted_at`
/// themselves, and that time counts, so that a token that is told again with another time is recognised.
struct TokenRecipient: Sendable {
    private let key: Curve25519.KeyAgreement.PrivateKey
    let id: [UInt8]

    private static let version: UInt8 = 1
    private static let idEnd = 1 + 4
    private static let headerLength = idEnd + 8
    private static let encapsulatedLength = 32
    private static let publicPrefix = "siwatch-public-key-1:"
    private static let info = Data("siwatch-token-sealed-1".utf8)

    init(_ sealingKey: SealingKey, of installation: [UInt8]) {
        let seed = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: sealingKey.material,
            info: LengthPrefixed.join([Array("siwatch/token-recipient/1".utf8), installation]),
            outputByteCount: 32
        )
        // Any 32 bytes are a private key of X25519, so this never throws.
        key = seed.withUnsafeBytes { try! Curve25519.KeyAgreement.PrivateKey(rawRepresentation: $0) }
        id = Array(SHA256.hash(data: key.publicKey.rawRepresentation).prefix(4))
    }

    var publicText: String { Self.publicPrefix + key.publicKey.rawRepresentation.base64EncodedString() }

    /// The id of the key to which the bytes are sealed; nil if they are not such bytes.
    static func keyID(of sealed: [UInt8]) -> [UInt8]? {
        sealed.first == version && sealed.count > headerLength + encapsulatedLength ? Array(sealed[1..<idEnd]) : nil
    }

    /// The time of the sign-in for which bytes with a key id are sealed. It is true if they open.
    static func grantedAt(of sealed: [UInt8]) -> Timestamp {
        Timestamp(milliseconds: sealed[idEnd..<headerLength].reduce(0) { $0 << 8 | Int64($1) })
    }

    /// - Parameter sealed: bytes with a key id.
    /// - Returns: nil if the bytes do not open for this user and client.
    func open(_ sealed: [UInt8], for credential: CredentialID) -> [UInt8]? {
        let body = sealed.dropFirst(Self.headerLength)
        let grantedAt = Self.grantedAt(of: sealed).milliseconds
        let associatedData = Data("\(credential.clientID)\0\(credential.userID)\0\(grantedAt)".utf8)
        var recipient = try? HPKE.Recipient(
            privateKey: key,
            ciphersuite: .Curve25519_SHA256_ChachaPoly,
            info: Self.info,
            encapsulatedKey: Data(body.prefix(Self.encapsulatedLength))
        )
        return try? recipient?.open(Data(body.dropFirst(Self.encapsulatedLength)), authenticating: associatedData).map { $0 }
    }
}
