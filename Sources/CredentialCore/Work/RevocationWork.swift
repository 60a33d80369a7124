// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A claimed row of `revocation_queue`: a request to revoke all tokens of a user.
package struct ClaimedRevocationRequest: Sendable {
    package var id: Int64
    package var claim: Claim
    package var app: String?
    package var requestedAt: Timestamp
    /// From when the request counts; nil before siwatch has looked at it. Not later than `requestedAt`.
    package var effectiveAt: Timestamp?
    package var credential: CredentialID?
    /// When an operator has confirmed the request, so that the revocation limit does not hold it.
    package var confirmedAt: Timestamp?

    package init(
        id: Int64,
        claim: Claim,
        app: String?,
        requestedAt: Timestamp,
        effectiveAt: Timestamp? = nil,
        credential: CredentialID?,
        confirmedAt: Timestamp? = nil
    ) {
        self.id = id
        self.claim = claim
        self.app = app
        self.requestedAt = requestedAt
        (self.effectiveAt, self.credential, self.confirmedAt) = (effectiveAt, credential, confirmedAt)
    }
}

/// A claimed token of a request to revoke. The request has its own copy of the sealed bytes, because an event or the proof of another
/// client's token may erase the credential's copy before Apple has said that the token is dead.
package struct DueRevocation: Sendable {
    /// The id of the row in `revocation_queue`.
    package var request: Int64
    /// From when the request counts.
    package var requestedAt: Timestamp
    package var id: CredentialID
    package var app: String
    package var claim: Claim
    package var token: RefreshToken.Key
    package var sealed: SealedToken
    package var standing: Standing
    package var proof: RevocationProof
    package var newerSignIn: NewerSignIn
    /// The team from which Apple had accepted the token when the request was opened; nil if Apple never had.
    package var verifiedTeam: String?
    package var teamID: String?
    package var clientAnswer: ClientAnswer?
    /// Whether somebody else than siwatch wrote the row.
    package var isPlanted = false

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
        (self.proof, self.newerSignIn, self.verifiedTeam) = (proof, newerSignIn, verifiedTeam)
    }

    /// What was known of the token when the request was opened, or what Apple has said of it since.
    package enum Standing: String, Sendable, CaseIterable {
        /// Apple has accepted the token since the request was opened.
        case accepted
        /// Apple had accepted the token before the request was opened. The sign-ins known when its end is believed decide whether it says
        /// something of the user.
        case acceptedBefore = "accepted_before"
        /// Apple had never accepted the token. It may be cut off, or another user's.
        case neverAccepted = "never_accepted"
    }

    /// Whether Apple last accepted the token from another team than this one. An answer to this team then proves nothing.
    package func wasAccepted(byAnotherTeamThan teamID: String?) -> Bool { verifiedTeam.map { $0 != teamID } ?? false }

    /// When the app asked to revoke, by Apple's clock, and not later than Apple was first asked. A backend's clock that is ahead must not
    /// make the request cover a later sign-in. The sign-in that the app meant may have its time from the same clock.
    package var wantedAt: Timestamp { wantedAt(by: proof) }
    var user: AppUserID { AppUserID(app: app, userID: id.userID) }

    package func wantedAt(by proof: RevocationProof) -> Timestamp {
        Self.wantedAt(requestedAt, askedAt: proof.before?.askedAt, date: proof.before?.date, tokenGrantedAt: token.grantedAt)
    }

    package static func wantedAt(_ requestedAt: Timestamp, askedAt: Timestamp?, date: Timestamp?, tokenGrantedAt: Timestamp) -> Timestamp {
        guard let askedAt, let date else { return requestedAt }
        // Apple's date is cut to the second. Our clock gives the fraction if it agrees; otherwise only the second's start is sure.
        let agrees = date.advanced(by: .zero - longestAnswer)...date.advanced(by: .milliseconds(999))
        return min(requestedAt, max(agrees.contains(askedAt) ? askedAt : date, tokenGrantedAt))
    }

    /// The latest opening of a request whose token may be claimed. If the configuration no longer names the client, the token waits for a
    /// week from then, by a clock that can be trusted, and stands in the way of no other.
    package static func latestOpening(isWatched: Bool, at trusted: Timestamp?) -> Timestamp {
        isWatched ? anyTime : trusted?.advanced(by: .zero - SettlementRules.longestGrantWait) ?? .earliest
    }

    /// Later than any opening.
    package static let anyTime = Timestamp(milliseconds: .max)

    /// The latest possible due time of a token. A later one came from a clock that has since been set back.
    package static func furthest(at now: Timestamp) -> Timestamp { now.advanced(by: RevocationProof.longestDelay) }

    /// The longest time between sending a question and Apple's date.
    private static let longestAnswer = Duration.seconds(15)
}

/// Whether a user has signed in again since the request to revoke.
package enum NewerSignIn: Sendable, Equatable {
    case none
    /// A waiting row may be a newer sign-in. Apple may refuse its code, and its token may have been told before.
    case possible
    case known
}

package enum RevocationRequestVerdict: Sendable, Equatable {
    /// siwatch may revoke the tokens of the request, if there are any. It looked at the request at this time, by Apple's clock if it knows
    /// that, otherwise by its own, which may be ahead.
    case accepted(at: Timestamp, knowsTime: Bool = true)
    case rejected(RevocationRejection)
}

package enum RevocationVerdict: Sendable, Equatable {
    /// Apple answered the next question, or siwatch asked Apple to revoke the token, and got no answer.
    case answered(RevocationProof.Answer, by: ClientIdentity, retryAfter: Duration? = nil)
    /// The token was dead before Apple was first asked, and this may be believed now.
    case admitted
    /// The token may have been dead before Apple was first asked, but this may not be believed yet.
    case unproven
    /// Apple had accepted the token from another team than the one that asks, so nobody can find out whether it is dead.
    case otherTeam
    /// siwatch does not revoke the token.
    case rejected(RevocationRejection)
    case overtaken
    /// The user may have signed in again: a waiting row will tell.
    case mayBeOvertaken
    case failed(at: Timestamp, retryAfter: Duration? = nil)
    /// siwatch asked nothing, because the client is paused.
    case unpermitted(at: Timestamp)
}

package enum RevocationOutcome: String, Sendable, CaseIterable {
    /// Apple accepted the token, was asked to revoke it, and no longer accepts it.
    case proved
    /// Apple no longer accepted the token when it was first asked.
    case alreadyInvalid = "already_invalid"
    /// The user has signed in again since the request. Nothing was revoked.
    case superseded
    /// siwatch held no token to revoke.
    case noToken = "no_token"
    /// Apple rejected the token when first asked, and had never accepted it as that of the newest sign-in. No state follows.
    case noValidToken = "no_valid_token"
    case rejected
}

package enum RevocationRejection: String, Sendable, CaseIterable {
    /// The configuration does not name the client, or no longer.
    case unknownClient = "unknown_client"
    case malformed
    /// The row has killed the process too often.
    case poison
    /// Two users' tokens were mixed up.
    case anotherUser = "another_user"
    /// Apple accepts the token and has never named its user, so it may be another's.
    case unnamedUser = "unnamed_user"
    /// The configuration forbids revocations for the app.
    case revocationsDisabled = "revocations_disabled"
    /// The revocation limit held the request, and an operator has dropped it.
    case dropped
    /// Apple had accepted the token from another team and rejects it from the team that asks now. That proves nothing.
    case otherTeam = "other_team"
    /// Somebody else than siwatch wrote the row of the token.
    case planted

    /// Whether siwatch has given the row up. What it says of a token opens no other token without the revocation limit.
    package var isGivenUp: Bool { self == .poison || self == .planted }
}
