// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Everything that is known of one user. No token and no code is in it.
package struct UserHistory: Sendable, Equatable {
    package var users: [User] = []
    package var credentials: [HeldCredential] = []
    package var grants: [LoggedGrant] = []
    package var notifications: [LoggedNotification] = []
    package var revocations: [RevocationReceipt] = []
    package var changes: [LoggedChange] = []
    package var waiting: [Waiting] = []
    package var tokensBeingRevoked: [TokenBeingRevoked] = []
    /// All clients that Apple refuses, whoever's they are.
    package var refusals: [String: ClientRefusal] = [:]

    package init() {}

    /// One user in one app: what backends read, and the registers behind it.
    package struct User: Sendable, Equatable, Codable {
        package var app: String
        package var pausedAt: Timestamp?
        package var consentRevokedAt: Timestamp?
        package var deletedAt: Timestamp?
        package var revokedAt: Timestamp?
        package var state: String
        package var reason: String
        package var changedAt: Timestamp?
        package var verifiedAt: Timestamp?
        package var email: String?
        package var emailIsPrivate: Bool?
        package var emailForwarding: String?
    }

    /// One user at one client.
    package struct HeldCredential: Sendable, Equatable, Codable {
        package var app: String
        package var clientID: String
        package var state: String
        package var reason: String
        package var changedAt: Timestamp?
        package var grantedAt: Timestamp?
        /// Of the sign-in that brought the newest token.
        package var tokenGrantedAt: Timestamp?
        /// Whether that token is still kept, sealed.
        package var holdsToken: Bool
        package var revokedAt: Timestamp?
        package var verifiedAt: Timestamp?
        package var rejectedAt: Timestamp?
        /// When Apple was asked and answered with a rejection that waits to be believed.
        package var rejectionPendingAt: Timestamp?
        /// Of any answer about a token, believed or not.
        package var answeredAt: Timestamp?
        /// What it said: a `TokenAnswer`.
        package var answer: String?
        package var failures: Int
        package var nextCheckAt: Timestamp?
        /// Whether Apple rejects the token and has never accepted it.
        package var isNeverAccepted: Bool
        package var isBeingAsked: Bool
    }

    package struct LoggedGrant: Sendable, Equatable, Codable {
        package var clientID: String
        package var grantedAt: Timestamp
        package var settledAt: Timestamp
        package var outcome: String
        package var reason: String?
        /// A few words on a rejection, Apple's mostly.
        package var detail: String?
    }

    package struct LoggedNotification: Sendable, Equatable, Codable {
        package var app: String
        package var clientID: String
        package var jti: String
        package var type: String
        package var occurredAt: Timestamp
        package var receivedAt: Timestamp
        package var settledAt: Timestamp
        package var outcome: String
        /// The signed original; a duplicate keeps none.
        package var payload: String?
    }

    package struct LoggedChange: Sendable, Equatable, Codable {
        package var id: Int64
        package var app: String
        package var clientID: String
        package var kind: String
        package var fromState: String?
        package var toState: String?
        package var reason: String?
        package var email: String?
        package var emailForwarding: String?
        package var source: String
        package var notificationJTI: String?
        package var occurredAt: Timestamp
        package var recordedAt: Timestamp
    }

    /// A row that has not left its queue. What a notification is about is not known before it is verified.
    package struct Waiting: Sendable, Equatable, Codable {
        package var queue: String
        package var id: Int64
        /// The app of its client; nil where none is known.
        package var app: String?
        /// Since when an operator has that app paused.
        package var pausedAt: Timestamp?
        package var clientID: String
        package var at: Timestamp
        package var bringsCode: Bool
        /// Since it was put off; 0 where nobody has looked at it.
        package var dueAt: Timestamp
        package var isClaimed: Bool
        /// Since when it waits for its client or for its time, by a clock that could be trusted; of a code, when it was first taken.
        package var waitsSince: Timestamp?
        /// Times that its code was sent and the road failed.
        package var failures: Int
        /// Whether Apple may have taken its code, with nobody to hear the answer.
        package var isAnswerLost: Bool
        /// Apple's last word about its code, or why there was none.
        package var detail: String?
        /// Since when the tokens of a request to revoke are at work.
        package var openedAt: Timestamp?
    }
}

extension UserHistory {
    package var isEmpty: Bool {
        var history = self
        history.refusals = [:]
        return history == UserHistory()
    }

    /// What concerns one client, that is also what concerns its whole app.
    package func limited(toClient clientID: String) -> UserHistory {
        var history = self
        history.credentials.removeAll { $0.clientID != clientID }
        let apps = Set(history.credentials.map(\.app))
        history.users.removeAll { !apps.contains($0.app) }
        history.notifications.removeAll { !apps.contains($0.app) && $0.clientID != clientID }
        history.grants.removeAll { $0.clientID != clientID }
        history.revocations.removeAll { $0.clientID != clientID }
        history.changes.removeAll { $0.clientID != clientID }
        history.waiting.removeAll { $0.clientID != clientID }
        history.tokensBeingRevoked.removeAll { $0.clientID != clientID }
        return history
    }
}
