// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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
