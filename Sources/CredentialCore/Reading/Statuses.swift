// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package struct QueueStatus: Sendable, Equatable, Codable {
    package var queue: String
    package var depth: Int
    /// The time of the oldest row, in milliseconds since 1970: when a notification arrived, a sign-in happened, or a revocation was
    /// requested.
    package var oldest: Int64?
    /// How many rows have left the queue so far.
    package var settled: Int

    package init(queue: String, depth: Int, oldest: Int64?, settled: Int = 0) {
        self.queue = queue
        self.depth = depth
        self.oldest = oldest
        self.settled = settled
    }
}

package struct CheckStatus: Sendable, Equatable, Codable {
    /// Checks that Apple answered about the token; `lastAnsweredAt` is the last of them.
    package var answered: Int
    package var lastAnsweredAt: Timestamp?
    /// Checks without an answer about the token: no connection, throttling, or a configuration that Apple refuses.
    package var failed: Int
    package var lastFailedAt: Timestamp?

    package init(answered: Int = 0, lastAnsweredAt: Timestamp? = nil, failed: Int = 0, lastFailedAt: Timestamp? = nil) {
        self.answered = answered
        self.lastAnsweredAt = lastAnsweredAt
        self.failed = failed
        self.lastFailedAt = lastFailedAt
    }
}

package struct AppStatus: Sendable, Equatable, Codable {
    package var app: String
    /// Since when an operator has paused the app.
    package var pausedAt: Timestamp?
    package var rejections: Rejections?
    /// Tokens that Apple rejects and has never accepted.
    package var neverAccepted: Int
    /// Tokens that Apple accepts as another user's.
    package var foreignTokens: Int
    /// Since when the brake holds the app's requests to revoke, and how many.
    package var revocationsBrakedAt: Timestamp?
    package var revocationsHeld: Int
    /// Sign-ins of users whose end Apple has signed, and those that undid it and that nothing at Apple proves.
    package var ended = 0
    package var unproven = 0

    /// Counts of Apple's rejections of the app's tokens.
    package struct Rejections: Sendable, Equatable, Codable {
        /// Rejections that wait to be believed.
        package var pending: Int
        /// Rejections that were believed at least an hour ago, over the life of the database. `withoutNotification` counts those among them
        /// without a notification.
        package var admitted: Int
        package var withoutNotification: Int

        package init(pending: Int, admitted: Int, withoutNotification: Int) {
            self.pending = pending
            self.admitted = admitted
            self.withoutNotification = withoutNotification
        }
    }

    package init(
        app: String,
        pausedAt: Timestamp?,
        rejections: Rejections? = nil,
        neverAccepted: Int = 0,
        foreignTokens: Int = 0,
        revocationsBrakedAt: Timestamp? = nil,
        revocationsHeld: Int = 0
    ) {
        self.app = app
        self.pausedAt = pausedAt
        self.rejections = rejections
        self.neverAccepted = neverAccepted
        self.foreignTokens = foreignTokens
        self.revocationsBrakedAt = revocationsBrakedAt
        self.revocationsHeld = revocationsHeld
    }
}

/// A token that Apple rejects and has never accepted. It says nothing of its user.
package struct NeverAcceptedToken: Sendable, Equatable, Codable {
    package var clientID: String
    package var userID: String
    /// The time of the newest sign-in.
    package var grantedAt: Timestamp
    /// The time of the sign-in that brought the token.
    package var tokenGrantedAt: Timestamp
    /// When siwatch last asked Apple about the token.
    package var rejectedAt: Timestamp
    /// Whether Apple has repeated the rejection. Until then the rejection is pending.
    package var isRepeated: Bool

    package var credential: CredentialID { CredentialID(clientID: clientID, userID: userID) }

    package init(
        clientID: String,
        userID: String,
        grantedAt: Timestamp,
        tokenGrantedAt: Timestamp,
        rejectedAt: Timestamp,
        isRepeated: Bool
    ) {
        self.clientID = clientID
        self.userID = userID
        self.grantedAt = grantedAt
        self.tokenGrantedAt = tokenGrantedAt
        self.rejectedAt = rejectedAt
        self.isRepeated = isRepeated
    }
}

/// A token, with the time of Apple's last answer about it.
package struct AnsweredToken: Sendable, Equatable, Codable {
    package var clientID: String
    package var userID: String
    /// The time of the sign-in that brought the token.
    package var tokenGrantedAt: Timestamp
    /// When Apple last answered.
    package var answeredAt: Timestamp

    package var credential: CredentialID { CredentialID(clientID: clientID, userID: userID) }

    package init(clientID: String, userID: String, tokenGrantedAt: Timestamp, answeredAt: Timestamp) {
        self.clientID = clientID
        self.userID = userID
        self.tokenGrantedAt = tokenGrantedAt
        self.answeredAt = answeredAt
    }
}

/// How many sign-ins stay in their queue because siwatch cannot take them yet.
package struct WaitingGrantCounts: Sendable, Equatable {
    package var putOff: [PutOff]
    /// Sign-ins that wait for their code to be exchanged.
    package var withCode: Int
    /// The time of the oldest of them.
    package var oldestCode: Timestamp?
    /// How many of the codes end within a minute, by the life that Apple documents.
    package var codesEnding: Int

    package struct PutOff: Sendable, Equatable {
        package var clientID: String
        package var isAhead: Bool
        package var count: Int
        /// Since when the first of them waits.
        package var since: Timestamp?

        package init(clientID: String, isAhead: Bool, count: Int, since: Timestamp?) {
            self.clientID = clientID
            self.isAhead = isAhead
            self.count = count
            self.since = since
        }
    }

    package init(putOff: [PutOff] = [], withCode: Int = 0, oldestCode: Timestamp? = nil, codesEnding: Int = 0) {
        self.putOff = putOff
        self.withCode = withCode
        self.oldestCode = oldestCode
        self.codesEnding = codesEnding
    }
}

/// Sign-ins of a client that nearly all come to nothing for one reason.
package struct RejectedSignIns: Sendable, Equatable, Codable {
    package var clientID: String
    /// A `GrantRejection`.
    package var reason: String
    package var rejected: Int
    /// All sign-ins that were settled meanwhile.
    package var settled: Int
}

/// How much work waits to be revoked.
package struct WaitingRevocationCounts: Sendable, Equatable, Codable {
    package var requests: Int
    /// When the oldest request was made.
    package var oldest: Timestamp?
    /// The tokens of the requests that are at work.
    package var tokens: Int
    /// The tokens that Apple was asked to revoke and still accepted.
    package var stillAccepted: Int
    /// The tokens that Apple rejected when first asked. The rejections are not believed yet.
    package var unbelieved: Int
    /// The newest receipts, at most twenty, and those of them without a token.
    package var newest = 0, newestWithoutToken = 0

    package init(requests: Int = 0, oldest: Timestamp? = nil, tokens: Int = 0, stillAccepted: Int = 0, unbelieved: Int = 0) {
        self.requests = requests
        self.oldest = oldest
        self.tokens = tokens
        self.stillAccepted = stillAccepted
        self.unbelieved = unbelieved
    }
}

package struct ClientStatus: Sendable, Equatable, Codable {
    package var app: String
    package var clientID: String
    /// When Apple last accepted a token or a code of the client.
    package var validAt: Timestamp?

    package init(app: String, clientID: String, validAt: Timestamp?) {
        self.app = app
        self.clientID = clientID
        self.validAt = validAt
    }
}

/// A client that Apple refuses, and its work that waits until Apple accepts it.
package struct RefusedClient: Sendable, Equatable, Codable {
    package var app: String
    package var clientID: String
    package var refusal: ClientRefusal
    /// Sign-ins with a waiting code.
    package var codes: Int
    /// Checks that are due.
    package var checks: Int
    /// Tokens to revoke.
    package var revocations: Int

    package init(app: String, clientID: String, refusal: ClientRefusal, codes: Int = 0, checks: Int = 0, revocations: Int = 0) {
        self.app = app
        self.clientID = clientID
        self.refusal = refusal
        self.codes = codes
        self.checks = checks
        self.revocations = revocations
    }
}

package struct CredentialCount: Sendable, Equatable, Codable {
    package var app: String
    package var state: String
    package var count: Int

    package init(app: String, state: String, count: Int) {
        self.app = app
        self.state = state
        self.count = count
    }
}
