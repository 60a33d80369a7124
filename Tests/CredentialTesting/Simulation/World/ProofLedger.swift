// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Apple's answer about a token that siwatch is to revoke, as the process heard it.
struct AnsweredQuestion {
    enum Word {
        case accepted, revoked, rejected, foreign
        /// The process sent the revocation and got no answer.
        case unheard
        /// Accepted, without a name in the answer.
        case unnamed
        /// The answer does not concern the token, or there was none.
        case none
    }

    var word: Word
    var keyID: String
    /// The asking team.
    var team: String?
    /// By the host's clock.
    var askedAt: Timestamp
    /// Apple's clock in the answer, cut to the second.
    var date: Timestamp
    /// Whether Apple rejected a token that is good.
    var isLie = false
    /// The answer's verdict on the client.
    var ofClient: ReferenceModel.ClientWord?
}

/// The answers about tokens that siwatch is to revoke, and the keys that Apple has accepted.
struct ProofLedger {
    struct Key: Hashable {
        var id: RevocationID
        var claim: Claim

        init(_ work: DueRevocation) {
            id = RevocationID(work)
            claim = work.claim
        }
    }

    private var calls: [Key: AnsweredQuestion] = [:]
    /// Clients and keys with a 200 about a token that Apple had accepted before, with the time by the host's clock. Counts since the
    /// process started, and under the present configuration.
    private var accepted: [[String]: Timestamp] = [:]
    /// Verdicts that believe a rejection by a key that Apple had accepted since the first rejection.
    private var wellFounded: Set<Key> = []
    /// Tokens that siwatch took for dead because Apple lied.
    var belied: Set<String> = []

    mutating func answered(_ work: DueRevocation, _ call: AnsweredQuestion) {
        calls[Key(work)] = call
    }

    /// Takes out the answer after the commit of the settlement.
    mutating func settled(_ work: DueRevocation) -> AnsweredQuestion? {
        calls.removeValue(forKey: Key(work))
    }

    mutating func accepted(_ clientID: String, keyID: String, at now: Timestamp) {
        accepted[[clientID, keyID]] = now
    }

    /// The process believes Apple's rejection of a token. The configuration at that moment counts, not the one at the commit.
    mutating func believes(_ work: DueRevocation, keyID: String?, since time: Timestamp) {
        if let accepted = accepted[[work.id.clientID, keyID ?? ""]], accepted > time { wellFounded.insert(Key(work)) }
    }

    func isWellFounded(_ work: DueRevocation) -> Bool {
        wellFounded.contains(Key(work))
    }

    /// Another configuration applies from now on.
    mutating func reloaded(_ clients: [String]) {
        accepted = accepted.filter { !clients.contains($0.key[0]) }
    }

    mutating func crashed() {
        calls = [:]
        accepted = [:]
        wellFounded = []
    }
}
