// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A row of `revocation_queue` as claimed: a request to revoke all that is held of a user.
package struct ClaimedRevocationRequest: Sendable {
    package var id: Int64
    package var claim: Claim
    /// The app of its client; nil where the store knows none.
    package var app: String?
    package var requestedAt: Timestamp
    /// Who; nil where it is not UTF-8 or too long to be meant.
    package var credential: CredentialID?

    package init(id: Int64, claim: Claim, app: String?, requestedAt: Timestamp, credential: CredentialID?) {
        self.id = id
        self.claim = claim
        self.app = app
        self.requestedAt = requestedAt
        self.credential = credential
    }
}

/// One token that a request is to revoke, as claimed. Its sealed bytes are kept a second time for this, since an event may erase the
/// credential's own before Apple has said that it is dead.
package struct DueRevocation: Sendable {
    /// The row of `revocation_queue`.
    package var request: Int64
    package var requestedAt: Timestamp
    package var id: CredentialID
    package var app: String
    package var claim: Claim
    package var token: RefreshToken.Key
    package var sealed: SealedToken
    package var proof: RevocationProof
    package var newerSignIn: NewerSignIn

    package init(
        request: Int64,
        requestedAt: Timestamp,
        id: CredentialID,
        app: String,
        claim: Claim,
        token: RefreshToken.Key,
        sealed: SealedToken,
        proof: RevocationProof = RevocationProof(),
        newerSignIn: NewerSignIn = .none
    ) {
        self.request = request
        self.requestedAt = requestedAt
        self.id = id
        self.app = app
        self.claim = claim
        self.token = token
        self.sealed = sealed
        self.proof = proof
        self.newerSignIn = newerSignIn
    }

    /// When the app wanted it, by Apple's clock: not after Apple was first asked. A backend whose clock is ahead must not take a later
    /// sign-in for one that it had in mind. The one that it had may be dated by the same clock.
    package var wantedAt: Timestamp {
        guard let date = proof.before?.date else { return requestedAt }
        return min(requestedAt, max(date.advanced(by: .milliseconds(999)), token.grantedAt))
    }
}

/// Whether a user has signed in again since the app asked to revoke.
package enum NewerSignIn: Sendable, Equatable {
    case none
    /// A code waits of which Apple has not said yet whether it is one.
    case possible
    /// It is known, or waits in its queue with its token.
    case known
}

/// What was found out about a row of `revocation_queue`.
package enum RevocationRequestVerdict: Sendable, Equatable {
    /// Its tokens are to be revoked, if there are any.
    case accepted
    case rejected(RevocationRejection)
}

/// What was found out about a token that is to be revoked.
package enum RevocationVerdict: Sendable, Equatable {
    /// Apple answered the question that came next.
    case answered(RevocationProof.Answer, by: ClientIdentity)
    /// It has long been dead, and whether that is to be believed is no question any more.
    case admitted
    /// Whether it has long been dead is not known yet.
    case unproven
    /// It is another user's: two users' tokens were mixed up, and this one is not to be revoked.
    case anotherUser
    /// Its user has signed in again.
    case overtaken
    /// Its user may have signed in again: Apple has yet to say so.
    case mayBeOvertaken
    /// No app of the configuration names its client any more.
    case unknownClient
    /// It has killed the process too often.
    case poison
    case failed(at: Timestamp, retryAfter: Duration? = nil)
    /// Nothing was asked, because its client is paused.
    case unpermitted(at: Timestamp)
}

package enum RevocationOutcome: String, Sendable, CaseIterable {
    /// Apple accepted the token, was asked to revoke it, and accepts it no more.
    case proved
    /// Apple did not accept the token any more when it was first asked.
    case alreadyInvalid = "already_invalid"
    /// The user has signed in again since the request: nothing was revoked.
    case superseded
    /// Nothing was held that could be revoked.
    case noToken = "no_token"
    case rejected
}

package enum RevocationRejection: String, Sendable, CaseIterable {
    case unknownClient = "unknown_client"
    case malformed
    case poison
    case anotherUser = "another_user"
}
