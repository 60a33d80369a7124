// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Seals refresh tokens, so that they stand nowhere in clear.
package protocol TokenSealer: Sendable {
    /// The key by which two tokens of one time are told apart.
    func fingerprint(of token: Secret) -> [UInt8]

    /// Encrypts a token for one credential and one grant: it opens for no other.
    func seal(_ token: Secret, for credential: CredentialID, grantedAt: Timestamp) throws -> SealedToken

    /// - Throws: where the key is missing, or the bytes were made for another credential or grant, or damaged.
    func open(_ sealed: SealedToken, for credential: CredentialID, grantedAt: Timestamp) throws -> Secret

    /// Opens what a backend has sealed to the public key, so that the token never stood in its queue in clear.
    func open(delivered sealed: [UInt8], for credential: CredentialID) throws(DeliveryError) -> Secret
}

/// Why what a backend has sealed does not open.
package enum DeliveryError: Error, Sendable, Equatable {
    /// Sealed to a key that the key file does not hold.
    case unknownKey(id: String)
    /// Damaged, made for another user or client, or no token.
    case unreadable
}

extension DeliveryError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unknownKey(let id): "sealed to key \(id), which the key file does not hold"
        case .unreadable: "damaged, or sealed for another user or client"
        }
    }
}
