// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The results of the requests to revoke a user's tokens, and the progress of waiting requests, without tokens.
package struct UserRevocations: Sendable, Equatable {
    package var receipts: [RevocationReceipt] = []
    /// Requests that have not left their queue.
    package var waiting: [UserHistory.Waiting] = []
    /// The tokens of waiting requests that are at work.
    package var tokens: [TokenBeingRevoked] = []
    /// All clients that Apple refuses, of any user.
    package var refusals: [String: ClientRefusal] = [:]

    package init() {}

    package var isEmpty: Bool { receipts.isEmpty && waiting.isEmpty && tokens.isEmpty }
}

/// The questions about one token to revoke and Apple's answers, or the result of a request without tokens.
package struct RevocationReceipt: Sendable, Equatable {
    package var id: Int64
    /// The id of the row in `revocation_queue`.
    package var request: Int64
    /// Nil if no app named the client.
    package var app: String?
    package var clientID: String
    package var requestedAt: Timestamp
    /// The time of the sign-in that brought the token; nil if there was no token.
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

/// A token of a request to revoke, and how far its proof is.
package struct TokenBeingRevoked: Sendable, Equatable {
    package var request: Int64
    package var app: String
    package var clientID: String
    /// The time of the sign-in that brought the token.
    package var tokenGrantedAt: Timestamp
    package var proof: RevocationProof
    /// When siwatch asks Apple next.
    package var dueAt: Timestamp
    package var isClaimed: Bool

    package init(
        request: Int64,
        app: String,
        clientID: String,
        tokenGrantedAt: Timestamp,
        proof: RevocationProof,
        dueAt: Timestamp,
        isClaimed: Bool
    ) {
        self.request = request
        self.app = app
        self.clientID = clientID
        self.tokenGrantedAt = tokenGrantedAt
        self.proof = proof
        self.dueAt = dueAt
        self.isClaimed = isClaimed
    }
}
