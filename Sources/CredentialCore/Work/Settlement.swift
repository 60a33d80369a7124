// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What became of one claimed piece of work.
package enum Settlement: Sendable {
    case notification(ClaimedNotification, NotificationVerdict)
    case grant(ClaimedGrant, GrantVerdict)
    case refresh(DueCredential, RefreshVerdict)
    /// A pending rejection whose time has come. It is believed if the breaker is still closed.
    case admission(DueCredential, PendingRejection)
}

package enum NotificationVerdict: Sendable, Equatable {
    case verified(VerifiedNotification)
    case rejected(RejectionReason, detail: String)
    case postponed(until: Timestamp)
}

package enum GrantVerdict: Sendable, Equatable {
    case accepted(Grant, CredentialID)
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
    case poison
}

/// What the store did with one settlement, for those who count.
package enum Settled: Sendable, Equatable {
    case notification(NotificationLogOutcome)
    case quarantined(RejectionReason)
    case grant(GrantLogOutcome, GrantRejection?)
    case refreshed
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
    /// The breakers that judged something, by app, as they are now.
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
