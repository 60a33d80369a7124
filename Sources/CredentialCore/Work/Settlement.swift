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

/// What a refresh comes to: a fact or none, what the breaker is to judge, and when to ask again.
package struct RefreshVerdict: Sendable, Equatable {
    /// A 200, or a rejection that is believed. A failure is no fact.
    package var fact: RefreshAnswer?
    /// When Apple answered about the token; nil where it did not.
    package var answeredAt: Timestamp?
    package var nextCheck: Timestamp
    /// What the breaker of the app learns from it.
    package var finding: RejectionBreaker.Finding?
    /// An `invalid_grant`, which the breaker holds, or lets wait.
    package var rejection: PendingRejection?
    /// Whether Apple accepted the token and named another user.
    package var isOfAnotherUser: Bool

    package init(
        fact: RefreshAnswer?,
        answeredAt: Timestamp?,
        nextCheck: Timestamp,
        finding: RejectionBreaker.Finding? = nil,
        rejection: PendingRejection? = nil,
        isOfAnotherUser: Bool = false
    ) {
        self.fact = fact
        self.answeredAt = answeredAt
        self.nextCheck = nextCheck
        self.finding = finding
        self.rejection = rejection
        self.isOfAnotherUser = isOfAnotherUser
    }

    /// Nil where Apple did not answer.
    package var answer: TokenAnswer? {
        guard answeredAt != nil else { return nil }
        if rejection != nil { return .rejected }
        switch fact?.verdict {
        case .valid: return .valid
        case .rejected: return .rejected
        case nil: return isOfAnotherUser ? .anotherUser : .unclear
        }
    }
}

/// What Apple last said of a token, believed or not.
package enum TokenAnswer: String, Sendable, CaseIterable {
    case valid, rejected
    /// It is good, and is another user's.
    case anotherUser = "another_user"
    /// Neither yes nor no.
    case unclear
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

/// A state that changed with a commit.
package struct StateTransition: Sendable, Hashable {
    package var app: String
    package var credential: CredentialID
    package var from: CredentialState?
    package var to: CredentialState
    package var reason: StateReason
    package var source: ChangeSource

    package init(
        app: String,
        credential: CredentialID,
        from: CredentialState?,
        to: CredentialState,
        reason: StateReason,
        source: ChangeSource
    ) {
        self.app = app
        self.credential = credential
        self.from = from
        self.to = to
        self.reason = reason
        self.source = source
    }
}

/// What one commit did.
package struct SettledBatch: Sendable {
    /// One for each settlement, in the same order.
    package var results: [Settled]
    package var transitions: [StateTransition]
    /// Unsigned rubbish that left the quarantine's ring to make room.
    package var evicted: Int
    /// The breakers that judged something, by app, as they are now.
    package var breakers: [String: RejectionBreaker]
    /// The apps of which a new token came, to ask about.
    package var replenished: Set<String>

    package init(
        results: [Settled] = [],
        transitions: [StateTransition] = [],
        evicted: Int = 0,
        breakers: [String: RejectionBreaker] = [:],
        replenished: Set<String> = []
    ) {
        self.results = results
        self.transitions = transitions
        self.evicted = evicted
        self.breakers = breakers
        self.replenished = replenished
    }
}
