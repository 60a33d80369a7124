// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What became of one claimed piece of work.
package enum Settlement: Sendable {
    case notification(ClaimedNotification, NotificationVerdict)
    case grant(ClaimedGrant, GrantVerdict)
    case code(ClaimedCode, CodeVerdict)
    case refresh(DueCredential, RefreshVerdict)
    /// A pending rejection whose time has come. It is believed if the breaker is still closed.
    case admission(DueCredential, PendingRejection)
    case revocationRequest(ClaimedRevocationRequest, RevocationRequestVerdict)
    case revocation(DueRevocation, RevocationVerdict)
}

package enum NotificationVerdict: Sendable, Equatable {
    case verified(VerifiedNotification)
    case rejected(RejectionReason, detail: String)
    case postponed(until: Timestamp)
}

package enum GrantVerdict: Sendable, Equatable {
    /// - Parameter lost: why the token that its backend has sealed is lost, if it is: the sign-in counts without one.
    case accepted(Grant, CredentialID, lost: GrantRejection? = nil)
    /// Dated further ahead than the clock skew explains, until `due`. It waits, for a week at most: a clock that is behind must not cost
    /// a token. The week counts from the first `lookedAt`, which a clock showed that can be trusted; it is nil where none could be.
    case inFuture(due: Timestamp, lookedAt: Timestamp?)
    /// No app names this client. It waits for a week, counted in the same way: a forgotten line must not cost a token.
    case unknownClient(lookedAt: Timestamp?)
    case rejected(GrantRejection)
}

package enum GrantRejection: String, Sendable, CaseIterable {
    case unknownClientExpired = "unknown_client_expired"
    case malformed
    /// The backend has sealed the token to a key that the key file does not hold.
    case unknownTokenKey = "unknown_token_key"
    /// What the backend has sealed does not open for this user and client.
    case unreadableToken = "unreadable_token"
    case poison

    // Of authorization codes.

    /// Its five minutes were over, by our clock before it was sent or by Apple's word.
    case codeExpired = "code_expired"
    /// The same, and Apple never looked at it: it refused the client when the code was sent, or refuses it and the code was never sent.
    case invalidClient = "invalid_client"
    case codeUsed = "code_used"
    /// Apple issued it to another client.
    case clientMismatch = "client_mismatch"
    case redirectURIMismatch = "redirect_uri_mismatch"
    /// The user of the id_token is not the one that the row names.
    case userMismatch = "user_mismatch"
    /// What Apple issued for it came with an id_token that is none, or not for this sign-in.
    case badIDToken = "bad_id_token"
    /// Apple refused it in words that have not been seen before.
    case rejectedByApple = "rejected_by_apple"
    /// siwatch had sent it before and did not hear or did not keep the answer: what Apple issued then is lost.
    case answerLost = "answer_lost"
}

/// What the store did with one settlement, for those who count.
package enum Settled: Sendable, Equatable {
    case notification(NotificationLogOutcome)
    case quarantined(RejectionReason)
    case grant(GrantLogOutcome, GrantRejection?)
    case refreshed
    /// Of a token that was to be revoked, or of the request where it came to none.
    case revocation(RevocationOutcome)
    /// A rejection that is not believed, because the breaker is open.
    case held
    /// It stays in its queue.
    case postponed
    /// Somebody else holds the row by now, or a newer grant replaced what was asked about.
    case superseded
}

package enum NotificationLogOutcome: String, Sendable, CaseIterable {
    case applied, stale, duplicate
    case unknownType = "unknown_type"
}

package enum GrantLogOutcome: String, Sendable, CaseIterable {
    case applied, stale, duplicate
    /// It brought a token that came with an earlier sign-in, and moved nothing.
    case retold
    case inFuture = "in_future"
    case rejected
}

/// One entry of the change feed.
package struct Announcement: Sendable, Equatable {
    package var app: String
    package var credential: CredentialID
    package var change: CredentialChange
    package var source: ChangeSource
    /// The `jti` of the notification that it follows from.
    package var tokenID: String?

    package init(app: String, credential: CredentialID, change: CredentialChange, source: ChangeSource, tokenID: String? = nil) {
        self.app = app
        self.credential = credential
        self.change = change
        self.source = source
        self.tokenID = tokenID
    }
}

/// What one commit did.
package struct SettledBatch: Sendable {
    /// One for each settlement, in the same order.
    package var results: [Settled]
    package var announcements: [Announcement]
    /// Unsigned rubbish that left the quarantine's ring to make room.
    package var evicted: Int
    /// The breakers of the apps that the batch concerns, as they are now.
    package var breakers: [String: RejectionBreaker]
    /// The apps of which a new token came, to ask about.
    package var replenished: Set<String>

    package init(
        results: [Settled] = [],
        announcements: [Announcement] = [],
        evicted: Int = 0,
        breakers: [String: RejectionBreaker] = [:],
        replenished: Set<String> = []
    ) {
        self.results = results
        self.announcements = announcements
        self.evicted = evicted
        self.breakers = breakers
        self.replenished = replenished
    }
}
