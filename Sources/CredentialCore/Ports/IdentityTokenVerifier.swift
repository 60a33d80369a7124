// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Whether an id_token is one that Apple issued to a client, and to whom it was.
package protocol IdentityTokenVerifier: Sendable {
    /// Whether any key is known to verify with.
    var hasKeys: Bool { get }

    /// - Parameters:
    ///   - clientID: whom `aud` has to name.
    ///   - nonce: what `nonce` has to be; nil where anything will do.
    ///   - now: by Apple's clock.
    /// - Throws: why it is none, or `keyNotYetKnown` where that cannot be told yet.
    func verify(
        _ token: Secret,
        issuedTo clientID: String,
        nonce: String?,
        at now: Timestamp
    ) async throws(VerificationError) -> VerifiedIdentity
}

package struct VerifiedIdentity: Sendable, Equatable {
    package var userID: String
    /// `iat`: a second, of which the rest is cut off.
    package var issuedAt: Timestamp
    package var address: EmailAddress?

    package init(userID: String, issuedAt: Timestamp, address: EmailAddress? = nil) {
        self.userID = userID
        self.issuedAt = issuedAt
        self.address = address
    }
}
