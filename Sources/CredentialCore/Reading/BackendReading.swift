// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The outcome of a sign-in that a backend has told. docs/schema.md, `grant_outcome`, explains each value.
package struct SignInOutcome: Sendable, Equatable {
    package var row: RowReference
    package var clientID: String
    package var userID: String?
    /// `waiting`, or an outcome of `grant_log`.
    package var outcome: String
    package var reason: String?
    /// Of a rejected code: a few words, such as Apple's last ones, without secrets. `grant_log` has them, and the view does not.
    package var detail: String?
    package var signedInAt: Timestamp?
    package var settledAt: Timestamp?
    package var realUserStatus: Int?
    /// The user as known in the same snapshot. Nil if siwatch knows nothing of the user.
    package var user: UserState?

    package init(
        row: RowReference,
        clientID: String,
        userID: String? = nil,
        outcome: String,
        reason: String? = nil,
        detail: String? = nil,
        signedInAt: Timestamp? = nil,
        settledAt: Timestamp? = nil,
        realUserStatus: Int? = nil,
        user: UserState? = nil
    ) {
        (self.row, self.clientID, self.userID, self.user) = (row, clientID, userID, user)
        (self.outcome, self.reason, self.detail) = (outcome, reason, detail)
        (self.signedInAt, self.settledAt, self.realUserStatus) = (signedInAt, settledAt, realUserStatus)
    }

    package static let waiting = "waiting"

    package var isWaiting: Bool { outcome == Self.waiting }

    /// Nil while it waits.
    package var logged: GrantLogOutcome? { GrantLogOutcome(rawValue: outcome) }

    /// Whether it is settled, and the user has signed in.
    package var isSignedIn: Bool {
        switch logged {
        case .applied, .stale, .duplicate, .retold: true
        case .inFuture, .rejected, nil: false
        }
    }
}

/// Over HTTP its members have these names, in snake case.
package struct UserState: Sendable, Equatable, Codable {
    package var app: String
    package var userID: String
    package var state: String
    package var reason: String
    package var changedAt: Timestamp?
    package var verifiedAt: Timestamp?
    package var email: String?
    package var isPrivateEmail: Bool?
    package var emailForwarding: String?

    /// Whether a session of this sign-in is to end: the rule of docs/schema.md.
    package func endsSession(of signedInAt: Timestamp) -> Bool {
        let isOver = state == CredentialState.revoked.rawValue || reason == StateReason.accountDeleted.rawValue
        return isOver && isGreater(changedAt, than: signedInAt)
    }
}

/// The outcome of a request to revoke. docs/schema.md, `revocation_outcome`, explains each value.
package struct DeletionOutcome: Sendable, Equatable {
    /// Its time is when the deletion was asked for.
    package var row: RowReference
    package var userID: String
    /// Whether it is in its queue, and whether an operator has to confirm it.
    package var isWaiting: Bool
    package var isHeld: Bool
    /// One for each token that is done, or one for a request that came to none.
    package var receipts: [Receipt]

    package struct Receipt: Sendable, Equatable, Codable {
        package var clientID: String
        package var outcome: String
        package var reason: String?
        package var settledAt: Timestamp?

        package init(clientID: String, outcome: String, reason: String?, settledAt: Timestamp?) {
            self.clientID = clientID
            self.outcome = outcome
            self.reason = reason
            self.settledAt = settledAt
        }
    }

    package init(row: RowReference, userID: String, isWaiting: Bool, isHeld: Bool, receipts: [Receipt]) {
        self.row = row
        self.userID = userID
        self.isWaiting = isWaiting
        self.isHeld = isHeld
        self.receipts = receipts
    }
}

/// Rows of `credential_change`, and where the feed begins and ends in the same snapshot.
package struct ChangePage: Sendable, Equatable {
    package var changes: [PublishedChange]
    /// The oldest id; one more than `newest` if there is none.
    package var oldest: Int64
    /// The newest change; `beforeAll` if there is none.
    package var newest: RowReference
    /// The newest change up to the id after which the page begins; nil if there is none.
    package var last: RowReference?

    package init(changes: [PublishedChange], oldest: Int64, newest: RowReference, last: RowReference?) {
        self.changes = changes
        self.oldest = oldest
        self.newest = newest
        self.last = last
    }

    /// Whether changes after an id are gone: past their retention, or lost by a restore.
    package func isGone(after id: Int64) -> Bool { id > newest.id || oldest > 0 && id < oldest - 1 }

    /// Whether changes after one are gone, or that one is of another feed, before a restore. The follower has to begin anew.
    package func isGone(after change: RowReference) -> Bool {
        guard !isGone(after: change.id) else { return true }
        guard let last else { return false }
        // If the change itself was erased, with its user, the one before it is older. After a restore it is newer, or there was none yet.
        return last.id == change.id ? last.time != change.time : last.time > change.time
    }
}

package struct PublishedChange: Sendable, Equatable, Codable {
    package var id: Int64
    package var app: String
    package var clientID: String
    package var userID: String
    package var kind: String
    package var fromState: String?
    package var toState: String?
    package var reason: String?
    package var email: String?
    package var emailForwarding: String?
    package var source: String
    /// The `jti` of the notification that caused it.
    package var notificationJTI: String?
    package var occurredAt: Timestamp
    package var recordedAt: Timestamp

    package var row: RowReference { RowReference(id: id, time: recordedAt) }

    /// Whether its user was forgotten. It tells nobody anything: it stays because it was the newest.
    package var isOfNobody: Bool { ForgottenUser.isName(userID) }
}
