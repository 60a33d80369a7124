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

/// One token that a request is to revoke, as claimed. Its sealed bytes are kept a second time for this, since an event, or the proof of
/// another client's token, may erase the credential's own before Apple has said that it is dead.
package struct DueRevocation: Sendable {
    /// The row of `revocation_queue`.
    package var request: Int64
    package var requestedAt: Timestamp
    package var id: CredentialID
    package var app: String
    package var claim: Claim
    package var token: RefreshToken.Key
    package var sealed: SealedToken
    package var standing: Standing
    package var proof: RevocationProof
    package var newerSignIn: NewerSignIn
    /// The team from which Apple had accepted it when the request was opened; nil where it never had.
    package var verifiedTeam: String?
    /// The team that asked; nil before.
    package var teamID: String?
    /// What Apple said of the client, once it was asked.
    package var clientAnswer: ClientAnswer?

    package init(
        request: Int64,
        requestedAt: Timestamp,
        id: CredentialID,
        app: String,
        claim: Claim,
        token: RefreshToken.Key,
        sealed: SealedToken,
        standing: Standing = .acceptedBefore,
        proof: RevocationProof = RevocationProof(),
        newerSignIn: NewerSignIn = .none,
        verifiedTeam: String? = nil
    ) {
        self.request = request
        self.requestedAt = requestedAt
        self.id = id
        self.app = app
        self.claim = claim
        self.token = token
        self.sealed = sealed
        self.standing = standing
        self.proof = proof
        self.newerSignIn = newerSignIn
        self.verifiedTeam = verifiedTeam
    }

    /// What was known of the token when the request was opened, or has been said of it since.
    package enum Standing: String, Sendable, CaseIterable {
        /// Apple has accepted it since then.
        case accepted
        /// Apple had accepted it then. Whether its end says something of the user hangs on the sign-ins that are known when it is believed.
        case acceptedBefore = "accepted_before"
        /// Apple had never accepted it. It may be cut off, or another user's.
        case neverAccepted = "never_accepted"
    }

    /// Whether Apple last accepted the token from another team than this one: what it says of the token to this team proves nothing.
    package func wasAccepted(byAnotherTeamThan teamID: String?) -> Bool { verifiedTeam.map { $0 != teamID } ?? false }

    /// When the app wanted it, by Apple's clock: not after Apple was first asked. A backend whose clock is ahead must not take a later
    /// sign-in for one that it had in mind. The one that it had may be dated by the same clock.
    package var wantedAt: Timestamp {
        guard let before = proof.before, let date = before.date else { return requestedAt }
        // Apple's date cuts its second off. Our clock says when in that second, if it agrees; else only what the second begins with is sure.
        let agrees = date.advanced(by: .zero - Self.longestAnswer)...date.advanced(by: .milliseconds(999))
        return min(requestedAt, max(agrees.contains(before.askedAt) ? before.askedAt : date, token.grantedAt))
    }

    /// How long before Apple's date a question may have left.
    private static let longestAnswer = Duration.seconds(15)
}

/// Whether a user has signed in again since the app asked to revoke.
package enum NewerSignIn: Sendable, Equatable {
    case none
    /// A row waits that may be one: a code may be refused, and a token may have been told before.
    case possible
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
    /// Apple had accepted it from another team, and has accepted others from the one that asks now: whether it is dead cannot be found out.
    case otherTeam
    /// It is another user's: two users' tokens were mixed up, and this one is not to be revoked.
    case anotherUser
    /// It may be another user's: Apple has never said whose it is.
    case unnamedUser
    /// Its user has signed in again.
    case overtaken
    /// Its user may have signed in again: a row waits that will tell.
    case mayBeOvertaken
    /// No app of the configuration names its client any more.
    case unknownClient
    /// The configuration forbids to revoke for its app.
    case disabled
    /// It has killed the process too often.
    case poison
    case failed(at: Timestamp, retryAfter: Duration? = nil)
    /// Apple was asked to revoke it, and no answer came.
    case unheard(RevocationProof.Answer, by: ClientIdentity, retryAfter: Duration? = nil)
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
    /// Apple rejected the token when it was first asked, and had never accepted it as the newest: nothing was revoked, and nothing follows.
    case noValidToken = "no_valid_token"
    case rejected
}

package enum RevocationRejection: String, Sendable, CaseIterable {
    case unknownClient = "unknown_client"
    case malformed
    case poison
    case anotherUser = "another_user"
    /// Apple accepts the token and does not say whose it is, and never did.
    case unnamedUser = "unnamed_user"
    case revocationsDisabled = "revocations_disabled"
    /// Apple had accepted the token from another team, and rejects it to the one that asks now, which proves nothing.
    case otherTeam = "other_team"
}
