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
}
