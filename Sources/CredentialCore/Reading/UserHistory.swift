// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Everything that siwatch knows of one user, without tokens and codes.
package struct UserHistory: Sendable, Equatable {
    package var users: [User] = []
    package var credentials: [HeldCredential] = []
    package var grants: [LoggedGrant] = []
    package var notifications: [LoggedNotification] = []
    package var revocations: [RevocationReceipt] = []
    package var changes: [PublishedChange] = []
    package var waiting: [Waiting] = []
    package var tokensBeingRevoked: [TokenBeingRevoked] = []
    /// What Apple signed about the user and siwatch did not believe.
    package var quarantined: [QuarantinedNotification] = []
    /// All clients that Apple refuses, of any user.
    package var refusals: [String: ClientRefusal] = [:]

    /// Whether older rows may be left out.
    package var isCut = false

    package init() {}

    /// One user in one app: the state that backends read, and the registers behind it.
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

    package struct HeldCredential: Sendable, Equatable, Codable {
        package var app: String
        package var clientID: String
        package var state: String
        package var reason: String
        package var changedAt: Timestamp?
        package var grantedAt: Timestamp?
        package var tokenGrantedAt: Timestamp?
        package var holdsToken: Bool
        package var revokedAt: Timestamp?
        package var verifiedAt: Timestamp?
        package var rejectedAt: Timestamp?
        /// When siwatch sent the request that Apple answered with the pending rejection.
        package var rejectionPendingAt: Timestamp?
        /// The time of Apple's last answer about a token, believed or not.
        package var answeredAt: Timestamp?
        /// Apple's answer at `answeredAt`: a `TokenAnswer`.
        package var answer: String?
        package var failures: Int
        package var nextCheckAt: Timestamp?
        package var isNeverAccepted: Bool
        package var isBeingAsked: Bool
    }

    package struct LoggedGrant: Sendable, Equatable, Codable {
        package var clientID: String
        package var grantedAt: Timestamp
        package var settledAt: Timestamp
        package var outcome: String
        package var reason: String?
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
        /// The signed original; nil for a duplicate.
        package var payload: String?
    }

    /// A row that has not left its queue. siwatch knows the user of a notification only once it is verified.
    package struct Waiting: Sendable, Equatable, Codable {
        package var queue: String
        package var id: Int64
        package var app: String?
        package var pausedAt: Timestamp?
        package var clientID: String
        package var at: Timestamp
        package var bringsCode: Bool
        /// When a postponed row is due; 0 if siwatch has not looked at the row.
        package var dueAt: Timestamp
        package var isClaimed: Bool
        /// Since when the row waits for its client, its time or an operator, by a clock that could be trusted. Of a code, its first claim.
        package var waitsSince: Timestamp?
        package var isAhead: Bool
        package var failures: Int
        package var isAnswerLost: Bool
        package var detail: String?
        /// Since when the tokens of a request to revoke are at work.
        package var openedAt: Timestamp?
    }

    package var isEmpty: Bool {
        var history = self
        history.refusals = [:]
        return history == UserHistory()
    }

    /// The history of some clients, with the facts of their whole apps.
    package func limited(toClients clientIDs: Set<String>) -> UserHistory {
        var history = self
        history.credentials.removeAll { !clientIDs.contains($0.clientID) }
        let apps = Set(history.credentials.map(\.app))
        history.users.removeAll { !apps.contains($0.app) }
        history.notifications.removeAll { !apps.contains($0.app) && !clientIDs.contains($0.clientID) }
        history.grants.removeAll { !clientIDs.contains($0.clientID) }
        history.revocations.removeAll { !clientIDs.contains($0.clientID) }
        history.changes.removeAll { !clientIDs.contains($0.clientID) }
        history.waiting.removeAll { !clientIDs.contains($0.clientID) }
        history.tokensBeingRevoked.removeAll { !clientIDs.contains($0.clientID) }
        return history
    }
}

/// The questions about one token to revoke and Apple's answers, or the result of a request without tokens.
package struct RevocationReceipt: Sendable, Equatable, Decodable {
    package var id: Int64
    /// The id of the row in `revocation_queue`.
    package var request: Int64
    /// Nil if no app named the client.
    package var app: String?
    package var clientID: String
    package var requestedAt: Timestamp
    package var tokenGrantedAt: Timestamp?
    package var proof = RevocationProof()
    package var settledAt: Timestamp
    package var outcome: String
    package var reason: String?

    private enum CodingKeys: CodingKey {
        case id, request, app, clientID, requestedAt, tokenGrantedAt, settledAt, outcome, reason
    }
}

/// What became of a token of a request to revoke, of a request without tokens, or of one that waits. docs/schema.md, `revocation_log`,
/// explains each member.
package struct RequestedRevocation: Sendable, Equatable, Codable {
    /// The id of the row in `revocation_queue`.
    package var request: Int64
    /// Nil if no app named the client.
    package var app: String?
    package var clientID: String
    /// A pseudonym if the user was forgotten.
    package var userID: String
    package var requestedAt: Timestamp
    /// `waiting`, `held`, or an outcome of `revocation_log`.
    package var outcome: String
    package var reason: String?
    package var settledAt: Timestamp?
    package var revokeAt: Timestamp?
    package var afterAt: Timestamp?
}

/// A token of a request to revoke, and how far its proof is.
package struct TokenBeingRevoked: Sendable, Equatable, Decodable {
    package var request: Int64
    package var app: String
    package var clientID: String
    package var tokenGrantedAt: Timestamp
    package var proof = RevocationProof()
    package var dueAt: Timestamp
    package var isClaimed: Bool

    private enum CodingKeys: CodingKey {
        case request, app, clientID, tokenGrantedAt, dueAt, isClaimed
    }
}

package struct QuarantinedNotification: Sendable, Equatable {
    package var id: Int64
    package var receivedAt: Timestamp
    package var rejectedAt: Timestamp
    package var reason: String
    package var detail: String
    /// Untrusted bytes. Escape them before printing.
    package var payload: [UInt8]

    package init(id: Int64, receivedAt: Timestamp, rejectedAt: Timestamp, reason: String, detail: String, payload: [UInt8]) {
        (self.id, self.receivedAt, self.rejectedAt) = (id, receivedAt, rejectedAt)
        (self.reason, self.detail, self.payload) = (reason, detail, payload)
    }
}
