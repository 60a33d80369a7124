// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Verifies that Apple issued an id_token to a client, and reads its user.
package protocol IdentityTokenVerifier: Sendable {
    var hasKeys: Bool { get }

    /// - Parameters:
    ///   - clientID: the client that `aud` has to name.
    ///   - nonce: the expected `nonce`; nil accepts any.
    ///   - now: by Apple's clock.
    /// - Throws: why the id_token is not valid, or `keyNotYetKnown` if its key is not known yet.
    func verify(
        _ token: Secret,
        issuedTo clientID: String,
        nonce: String?,
        at now: Timestamp
    ) async throws(VerificationError) -> VerifiedIdentity
}

package struct VerifiedIdentity: Sendable, Equatable {
    package var userID: String
    /// `iat`, cut off to the second.
    package var issuedAt: Timestamp
    package var address: EmailAddress?
    /// Apple's guess whether a person signs in: 0 is unsupported, 1 unknown, 2 likely real. siwatch passes it on and decides nothing by it.
    package var realUserStatus: Int?

    package init(userID: String, issuedAt: Timestamp, address: EmailAddress? = nil, realUserStatus: Int? = nil) {
        self.userID = userID
        self.issuedAt = issuedAt
        self.address = address
        self.realUserStatus = realUserStatus
    }
}
