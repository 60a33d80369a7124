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
    /// Dated further ahead than the clock skew explains: logged, not applied.
    case inFuture
    /// No app names this client. It waits for a week, due each minute: a forgotten line must not cost a token.
    case unknownClient
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
    package var finding: RevocationBreaker.Finding?
    /// An `invalid_grant`, which the breaker holds, or lets wait.
    package var rejection: PendingRejection?

    package init(
        fact: RefreshAnswer?,
        answeredAt: Timestamp?,
        nextCheck: Timestamp,
        finding: RevocationBreaker.Finding? = nil,
        rejection: PendingRejection? = nil
    ) {
        self.fact = fact
        self.answeredAt = answeredAt
        self.nextCheck = nextCheck
        self.finding = finding
        self.rejection = rejection
    }
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
    package var breakers: [String: RevocationBreaker]

    package init(
        results: [Settled] = [],
        transitions: [StateTransition] = [],
        evicted: Int = 0,
        breakers: [String: RevocationBreaker] = [:]
    ) {
        self.results = results
        self.transitions = transitions
        self.evicted = evicted
        self.breakers = breakers
    }
}
