// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// What a handler found out about a piece of work, before the breaker has judged it.
package enum Resolution: Sendable {
    case notification(ClaimedNotification, NotificationVerdict)
    case grant(ClaimedGrant, GrantVerdict)
    case refresh(DueCredential, RefreshAttempt)
    /// Nobody was asked: the time of a pending rejection has come.
    case admission(DueCredential, PendingRejection)
}

/// One question to Apple about one token, and the answer.
package struct RefreshAttempt: Sendable {
    package var app: String
    package var response: RefreshResponse
    /// By Apple's clock where it told: a fact is of this moment.
    package var requestedAt: Timestamp
    /// By ours: the schedule goes by it.
    package var answeredAt: Timestamp

    package init(app: String, response: RefreshResponse, requestedAt: Timestamp, answeredAt: Timestamp) {
        self.app = app
        self.response = response
        self.requestedAt = requestedAt
        self.answeredAt = answeredAt
    }
}
