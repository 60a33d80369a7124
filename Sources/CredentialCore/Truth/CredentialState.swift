// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The state that a device would be told, by Apple's case names. docs/schema.md lists them.
package enum CredentialState: String, Sendable, CaseIterable {
    case authorized
    case revoked
    case notFound
}

package enum StateReason: String, Sendable, CaseIterable {
    case granted
    case tokenRejected = "token_rejected"
    case consentRevoked = "consent_revoked"
    case accountDeleted = "account_deleted"
    case revokedByApp = "revoked_by_app"
    case neverGranted = "never_granted"
}

package struct CredentialStanding: Sendable, Equatable {
    package var state: CredentialState
    package var reason: StateReason
    package var since: Timestamp?

    package init(_ state: CredentialState, _ reason: StateReason, since: Timestamp?) {
        (self.state, self.reason, self.since) = (state, reason, since)
    }
}

extension Credential {
    /// The state by the first rule of docs/truth.md that holds. At the same time a grant beats an event, but a revocation (`A` or
    /// `B`) beats the grant, because its request named that sign-in.
    package func standing(under user: AppUser) -> CredentialStanding {
        if isGreater(user.deletedAt, than: grantedAt) {
            return CredentialStanding(.notFound, .accountDeleted, since: user.deletedAt)
        }
        if let revocation = newestRevocation(under: user), !isGreater(grantedAt, than: revocation) {
            return CredentialStanding(.revoked, .revokedByApp, since: revocation)
        }
        if isGreater(user.consentRevokedAt, than: grantedAt) {
            return CredentialStanding(.revoked, .consentRevoked, since: user.consentRevokedAt)
        }
        guard let grantedAt else { return CredentialStanding(.notFound, .neverGranted, since: nil) }
        if let verifiedAt, isTokenRejected, wasTokenGood(at: grantedAt) {
            // The token ended at an unknown moment after this. The rejection does not end a session that began since.
            return CredentialStanding(.revoked, .tokenRejected, since: max(verifiedAt, grantedAt.advanced(by: .milliseconds(1))))
        }
        return CredentialStanding(.authorized, .granted, since: grantedAt)
    }

    /// The later of `A` and `B`. `A` counts only if the user has signed in here: at any other client it has nothing to end.
    private func newestRevocation(under user: AppUser) -> Timestamp? {
        grantedAt == nil ? revokedAt : latest(user.revokedAt, revokedAt)
    }

    /// Whether the token came with a sign-in at that time or later, or Apple has accepted it since. Otherwise the token may have ended
    /// before that sign-in, which brought none, so its end says nothing of the sign-in.
    func wasTokenGood(at signIn: Timestamp) -> Bool {
        !isGreater(signIn, than: latest(token?.key.grantedAt, verifiedAt))
    }
}
