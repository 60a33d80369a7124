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
    case accepted(Grant, CredentialID, lost: GrantRejection? = nil)
    /// The sign-in is dated further ahead than the clock skew explains. It waits until `due`, for at most a week from the first `lookedAt`
    /// by a clock that can be trusted, because a clock that is behind must not cost a token.
    case inFuture(due: Timestamp, lookedAt: Timestamp?)
    /// No app names the client. The sign-in waits for a week, counted as for `inFuture`, because a forgotten line must not cost a token.
    case unknownClient(lookedAt: Timestamp?)
    case rejected(GrantRejection)
}

package enum GrantRejection: String, Sendable, CaseIterable {
    case unknownClientExpired = "unknown_client_expired"
    case malformed
    /// The backend has sealed the token to a key that the key file does not hold.
    case unknownTokenKey = "unknown_token_key"
    /// The backend's sealed token does not open for this user and client.
    case unreadableToken = "unreadable_token"
    case poison

    // Reasons for authorization codes only.

    /// The code's five minutes were over, by our clock before siwatch sent it, or by Apple's word.
    case codeExpired = "code_expired"
    /// The code expired and Apple never looked at it, because Apple refuses the client.
    case invalidClient = "invalid_client"
    case codeUsed = "code_used"
    /// Apple issued the code to another client.
    case clientMismatch = "client_mismatch"
    case redirectURIMismatch = "redirect_uri_mismatch"
    /// The id_token names another user than the row.
    case userMismatch = "user_mismatch"
    /// The tokens that Apple issued for the code came without an id_token that verifies for this sign-in.
    case badIDToken = "bad_id_token"
    /// Apple refused the code in words that siwatch does not know.
    case rejectedByApple = "rejected_by_apple"
    /// siwatch had sent the code before and did not hear or keep the answer. The tokens that Apple may have issued then are lost.
    case answerLost = "answer_lost"
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
