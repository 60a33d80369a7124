// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What became of the requests to revoke what is held of a user, and how far those are that wait. No token is in it.
package struct UserRevocations: Sendable, Equatable {
    package var receipts: [RevocationReceipt] = []
    /// Requests that have not left their queue.
    package var waiting: [UserHistory.Waiting] = []
    /// The tokens of those among them that are at work.
    package var tokens: [TokenBeingRevoked] = []
    /// All clients that Apple refuses, whoever's they are.
    package var refusals: [String: ClientRefusal] = [:]

    package init() {}

    package var isEmpty: Bool { receipts.isEmpty && waiting.isEmpty && tokens.isEmpty }
}

/// What Apple was asked about one token that was to be revoked, and what it answered; or what became of a request without any.
package struct RevocationReceipt: Sendable, Equatable {
    package var id: Int64
    /// The row of `revocation_queue`.
    package var request: Int64
    /// Nil where no app named the client.
    package var app: String?
    package var clientID: String
    package var requestedAt: Timestamp
    /// Of the sign-in that brought the token; nil where there was none.
    package var tokenGrantedAt: Timestamp?
    package var proof: RevocationProof
    package var settledAt: Timestamp
    package var outcome: String
    package var reason: String?

    package init(
        id: Int64,
        request: Int64,
        app: String?,
        clientID: String,
        requestedAt: Timestamp,
        tokenGrantedAt: Timestamp?,
        proof: RevocationProof,
        settledAt: Timestamp,
        outcome: String,
        reason: String?
    ) {
        self.id = id
        self.request = request
        self.app = app
        self.clientID = clientID
        self.requestedAt = requestedAt
        self.tokenGrantedAt = tokenGrantedAt
        self.proof = proof
        self.settledAt = settledAt
        self.outcome = outcome
        self.reason = reason
    }
}

/// A token that a request is to revoke, and how far that is.
package struct TokenBeingRevoked: Sendable, Equatable {
    package var request: Int64
    package var app: String
    package var clientID: String
    package var requestedAt: Timestamp
    /// Of the sign-in that brought it.
    package var tokenGrantedAt: Timestamp
    package var proof: RevocationProof
    /// When Apple is asked next.
    package var dueAt: Timestamp
    package var isClaimed: Bool

    package init(
        request: Int64,
        app: String,
        clientID: String,
        requestedAt: Timestamp,
        tokenGrantedAt: Timestamp,
        proof: RevocationProof,
        dueAt: Timestamp,
        isClaimed: Bool
    ) {
        self.request = request
        self.app = app
        self.clientID = clientID
        self.requestedAt = requestedAt
        self.tokenGrantedAt = tokenGrantedAt
        self.proof = proof
        self.dueAt = dueAt
        self.isClaimed = isClaimed
    }
}
