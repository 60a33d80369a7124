// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package enum Settlement: Sendable {
    case notification(ClaimedNotification, NotificationVerdict)
    case grant(ClaimedGrant, GrantVerdict)
    case code(ClaimedCode, CodeVerdict)
    case refresh(DueCredential, RefreshVerdict)
    /// A pending rejection whose time has come. It is believed if the breaker does not hold it.
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
    /// - Parameter lost: why the token that the backend has sealed is lost; nil if it is not. The sign-in counts without a token.
    case accepted(Grant, CredentialID, lost: DeliveryError? = nil)
    /// The sign-in is dated further ahead than the clock skew explains. It waits until `due`, for at most a week from the first `lookedAt`
    /// by a clock that can be trusted, because a clock that is behind must not cost a token.
    case inFuture(due: Timestamp, lookedAt: Timestamp?)
    /// No app names the client. The sign-in waits for a week, counted as for `inFuture`, because a forgotten line must not cost a token.
    case unknownClient(lookedAt: Timestamp?)
    case rejected(GrantRejection)
}

/// What the store did with one settlement, for the metrics.
package enum Settled: Sendable, Equatable {
    case notification(NotificationLogOutcome)
    case quarantined(RejectionReason)
    case grant(GrantLogOutcome, GrantRejection?)
    case refreshed
    /// The outcome for a token to revoke, or for a request without tokens.
    case revocation(RevocationOutcome, RevocationRejection? = nil)
    /// A rejection that is not believed: the breaker holds it, another team asked, or siwatch asked about a canary out of turn.
    case held
    /// A request to revoke that waits for an operator, because the revocation limit is reached.
    case heldBack(reachesLimit: Bool)
    case postponed
    /// Another process holds the row now, or a newer grant replaced the token that siwatch asked about.
    case superseded
}

package enum NotificationLogOutcome: String, Sendable, CaseIterable {
    case applied, stale, duplicate
    case unknownType = "unknown_type"
}

package enum GrantLogOutcome: String, Sendable, CaseIterable {
    case applied, stale, duplicate
    /// The sign-in brought a token of an earlier sign-in, and moved nothing.
    case retold
    case inFuture = "in_future"
    case rejected
}

package struct Announcement: Sendable, Equatable {
    package var app: String
    package var credential: CredentialID
    package var change: CredentialChange
    package var source: ChangeSource
    /// The `jti` of the notification that caused the change.
    package var tokenID: String?

    package init(app: String, credential: CredentialID, change: CredentialChange, source: ChangeSource, tokenID: String? = nil) {
        self.app = app
        self.credential = credential
        self.change = change
        self.source = source
        self.tokenID = tokenID
    }
}
