// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Apple's case names for what a device would be told; docs/schema.md lists them.
package enum CredentialState: String, Sendable, CaseIterable {
    case authorized
    case revoked
    case notFound
}

/// Why a credential is in its state.
package enum StateReason: String, Sendable, CaseIterable {
    case granted
    case tokenRejected = "token_rejected"
    case consentRevoked = "consent_revoked"
    case accountDeleted = "account_deleted"
    case revokedByApp = "revoked_by_app"
    case neverGranted = "never_granted"
}

/// A state, its reason, and when that became true at Apple.
package struct CredentialStanding: Sendable, Equatable {
    package var state: CredentialState
    package var reason: StateReason
    package var since: Timestamp?

    package init(_ state: CredentialState, _ reason: StateReason, since: Timestamp?) {
        self.state = state
        self.reason = reason
        self.since = since
    }
}

extension Credential {
    /// The first rule that holds. Equality favours the grant, save that a proved revocation at the time of the grant wins:
    /// the request named that sign-in.
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
        guard let grantedAt else {
            return CredentialStanding(.notFound, .neverGranted, since: nil)
        }
        if let verifiedAt, isTokenRejected, wasTokenGood(at: grantedAt) {
            // When it ended is not known, only that it was later than this. A session that began since is none of its business.
            return CredentialStanding(.revoked, .tokenRejected, since: max(verifiedAt, grantedAt.advanced(by: .milliseconds(1))))
        }
        return CredentialStanding(.authorized, .granted, since: grantedAt)
    }

    /// The greater of `A` and `B`. `A` counts only where the user has signed in: at any other client it has nothing to end.
    private func newestRevocation(under user: AppUser) -> Timestamp? {
        grantedAt == nil ? revokedAt : latest(user.revokedAt, revokedAt)
    }

    /// Whether the token came with a sign-in at that time or later, or Apple accepted it since. Else it may have ended before that
    /// sign-in, which brought no token of its own, and its end says nothing of it.
    func wasTokenGood(at signIn: Timestamp) -> Bool {
        !isGreater(signIn, than: latest(token?.key.grantedAt, verifiedAt))
    }
}
