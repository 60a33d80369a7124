// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A token that is being revoked: how far its proof is, and what it waits for.
struct TokenAtWork: Encodable {
    var token: TokenBeingRevoked
    /// Set if Apple refuses the client of the token.
    var refusal: ClientRefusal?
    /// How far the proof is, for people.
    var words: String

    /// - Parameters:
    ///   - clients: those of the configuration.
    ///   - refusals: the refusals of all clients that Apple refuses.
    init(_ token: TokenBeingRevoked, watching clients: Set<String>, _ refusals: [String: ClientRefusal], at now: Timestamp) {
        self.token = token
        refusal = refusals[token.clientID]
        let isConfigured = clients.contains(token.clientID)
        let next = isConfigured ? token.next(refusal, at: now) : "which waits for an app of the configuration to name its client"
        words = "\(token.proof.words); \(next)"
    }

    func encode(to encoder: any Encoder) throws {
        try token.proof.encode(to: encoder)
        try encoder.encode([
            "clientID": token.clientID, "tokenGrantedAt": token.tokenGrantedAt, "rounds": token.proof.rounds,
            "failures": token.proof.failures, "dueAt": token.dueAt, "refusal": refusal, "words": words,
        ])
    }
}

extension TokenBeingRevoked {
    fileprivate func next(_ refusal: ClientRefusal?, at now: Timestamp) -> String {
        if isClaimed { return proof.next == .isBelieved ? "that is looked at now" : "Apple is being asked" }
        if let refusal { return "that waits: \(refusal.words)" }
        return dueAt > now ? "next at \(dueAt.text)" : "that waits for its turn"
    }
}

extension RevocationProof {
    fileprivate var words: String {
        var parts: [String]
        switch next {
        case .isAccepted: parts = ["Apple is to be asked whether it accepts it"]
        case .revoke:
            parts = ["Apple accepted it at \(before?.askedAt.text ?? ""), and is to be asked to revoke it"]
        case .isStillAccepted:
            parts = [
                "Apple was asked to revoke it at \(revocation?.askedAt.text ?? "")"
                    + (revocation?.word == .unheard ? ", which may have worked although no answer came" : "")
                    + ", and is to be asked whether it accepts it still"
            ]
        case .isBelieved:
            parts = [
                "Apple rejected it at \(before?.askedAt.text ?? "") when first asked. siwatch believes that once Apple rejects it again, "
                    + "has accepted another token of this client with the same key in between, the settle time has passed, "
                    + "and the breaker holds no rejection of this client"
            ]
        }
        if rounds > 0 { parts.append("Apple has accepted it still after \(rounds) revocations") }
        if failures > 0 { parts.append("\(failures.counted("question")) since then brought no answer") }
        return parts.joined(separator: "; ")
    }
}
