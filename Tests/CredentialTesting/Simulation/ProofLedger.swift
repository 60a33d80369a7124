// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What Apple said of a token that is to be revoked, as the process heard it.
struct AnsweredQuestion {
    enum Word {
        case accepted, revoked, rejected, foreign
        /// A revocation that was sent, and no answer came.
        case unheard
        /// Accepted, and nobody named.
        case unnamed
        /// Nothing about the token, or nothing at all.
        case none
    }

    var word: Word
    var keyID: String
    /// The one that asked.
    var team: String?
    /// By our clock.
    var askedAt: Timestamp
    /// Apple's clock in the answer, its second cut off.
    var date: Timestamp
    /// Whether Apple rejected a token that is good.
    var isLie = false
    /// What it said of the client.
    var ofClient: ReferenceModel.ClientWord?
}

/// What was asked about tokens that are to be revoked, and which keys Apple has accepted.
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
    /// Clients and keys with a 200 about a token that had been accepted before, since the process started, with the configuration at work,
    /// and when that was, by our clock.
    private var accepted: [[String]: Timestamp] = [:]
    /// Verdicts that believe a rejection, by a key that Apple had accepted since it was first spoken.
    private var wellFounded: Set<Key> = []
    /// Tokens that were taken for dead because Apple lied of them.
    var belied: Set<String> = []

    mutating func answered(_ work: DueRevocation, _ call: AnsweredQuestion) {
        calls[Key(work)] = call
    }

    /// Takes out what was answered, once the settlement has been committed.
    mutating func settled(_ work: DueRevocation) -> AnsweredQuestion? {
        calls.removeValue(forKey: Key(work))
    }

    mutating func accepted(_ clientID: String, keyID: String, at now: Timestamp) {
        accepted[[clientID, keyID]] = now
    }

    /// The process believes what was said of a token to a key. What it knew counts, and not what is at work by the commit.
    mutating func believes(_ work: DueRevocation, keyID: String?, since time: Timestamp) {
        if let accepted = accepted[[work.id.clientID, keyID ?? ""]], accepted > time { wellFounded.insert(Key(work)) }
    }

    func isWellFounded(_ work: DueRevocation) -> Bool {
        wellFounded.contains(Key(work))
    }

    /// Another configuration is at work.
    mutating func reloaded(_ clients: [String]) {
        accepted = accepted.filter { !clients.contains($0.key[0]) }
    }

    mutating func crashed() {
        calls = [:]
        accepted = [:]
        wellFounded = []
    }
}
