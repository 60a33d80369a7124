// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

struct AnsweredExchange {
    var outcome = EndpointAnswer<ExchangeNews>.unavailable("reset", isAnswerLost: true)
    /// The sign-in behind the code, if Apple took the code.
    var identity: ScriptedApple.Identity?
    var token: String?
    /// The asking team.
    var team: String?
    /// The times of request and answer that the process must record.
    var sentAt: Timestamp
    var dated: Timestamp
    var trulySentAt: Timestamp
    var answeredAt: Timestamp
}

/// The simulation's record of all sent codes and their outcomes.
struct CodeLedger {
    private struct Key: Hashable {
        var row: Int64
        var claim: Claim

        init(_ work: ClaimedCode) { (row, claim) = (work.id, work.claim) }
    }

    private struct Sending {
        var claim: Claim
        var claimedAt: Timestamp
        /// Whether the process heard that Apple took or refused the code.
        var isHeard = false
        var isCommitted = false
        var isOver = false
    }

    /// Shorter than the lease of a code.
    private static let shortestLease = Duration.seconds(120)

    private var sendings: [Int64: [Sending]] = [:]
    private var calls: [Key: AnsweredExchange] = [:]
    private var claimedAt: [Key: Timestamp] = [:]
    private var unknownAt: [Key: Timestamp] = [:]

    /// - Parameter isPunctual: whether the clock has always been right.
    /// - Returns: the violation, if the process may not send the code now.
    mutating func sent(_ work: ClaimedCode, deadline: Timestamp, isPunctual: Bool, at now: Timestamp, truly truth: Timestamp) -> Violation?
    {
        let claimedAt = claimedAt[Key(work)] ?? truth
        defer { sendings[work.id, default: []].append(Sending(claim: work.claim, claimedAt: claimedAt)) }
        if isPunctual, now >= deadline {
            return Violation(.stateFollowsFromFacts, "code \(work.id) is sent \(deadline.duration(to: now)) after its deadline")
        }
        let known = sendings[work.id]?.first { $0.isCommitted || !$0.isOver && $0.claim == work.claim }
        return known.map { _ in Violation(.effectsAreOnce, "code \(work.id) is sent twice under one claim") }
    }

    /// - Returns: the violation, if the process may not claim the code to send it.
    mutating func claimed(_ work: ClaimedCode, truly truth: Timestamp) -> Violation? {
        claimedAt[Key(work)] = truth
        // A process that stood still for longer than the lease has lost the answer, even if it sent the code after that.
        let known = sendings[work.id]?.first { $0.isCommitted || $0.isHeard && $0.claimedAt.duration(to: truth) < Self.shortestLease }
        return known.map { _ in Violation(.effectsAreOnce, "code \(work.id) is to be sent again, though its answer is known") }
    }

    /// - Returns: the violation, if the code's deadline has not passed.
    func unsent(_ work: ClaimedCode, deadline: Timestamp, isPunctual: Bool, at now: Timestamp) -> Violation? {
        guard isPunctual, now < deadline else { return nil }
        return Violation(.nothingIsStuck, "code \(work.id) is given up \(now.duration(to: deadline)) before its deadline")
    }

    mutating func answered(_ work: ClaimedCode, _ call: AnsweredExchange) {
        calls[Key(work)] = call
        switch call.outcome {
        case .news(.issued), .news(.refused):
            if let last = sendings[work.id]?.lastIndex(where: { $0.claim == work.claim }) { sendings[work.id]![last].isHeard = true }
        case .misconfigured, .throttled, .unavailable: break
        }
    }

    mutating func foundUnknown(_ work: ClaimedCode, at now: Timestamp) { unknownAt[Key(work)] = now }

    /// When the process did not find the client of a code.
    mutating func settledUnknown(_ work: ClaimedCode) -> Timestamp? { unknownAt.removeValue(forKey: Key(work)) }

    /// Takes out the answer after the commit of the settlement.
    mutating func settled(_ work: ClaimedCode, _ result: Settled) -> AnsweredExchange? {
        for index in (sendings[work.id] ?? []).indices {
            if case .grant = result { sendings[work.id]![index].isCommitted = true }
            if sendings[work.id]![index].claim == work.claim { sendings[work.id]![index].isOver = true }
        }
        return calls.removeValue(forKey: Key(work))
    }

    /// The process forgets the answers that it heard and did not commit.
    mutating func crashed() {
        calls = [:]
        unknownAt = [:]
        for row in sendings.keys {
            for index in sendings[row]!.indices { sendings[row]![index].isHeard = false }
        }
    }
}

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

        init(_ work: DueRevocation) { (id, claim) = (RevocationID(work), work.claim) }
    }

    private var calls: [Key: AnsweredQuestion] = [:]
    /// Clients and keys with a 200 about a token that Apple had accepted before, with the time by the host's clock. Counts since the
    /// process started, and under the present configuration.
    private var accepted: [[String]: Timestamp] = [:]
    /// Verdicts that believe a rejection by a key that Apple had accepted since the first rejection.
    private var wellFounded: Set<Key> = []
    /// Tokens that siwatch took for dead because Apple lied.
    var belied: Set<String> = []

    mutating func answered(_ work: DueRevocation, _ call: AnsweredQuestion) { calls[Key(work)] = call }

    /// Takes out the answer after the commit of the settlement.
    mutating func settled(_ work: DueRevocation) -> AnsweredQuestion? { calls.removeValue(forKey: Key(work)) }
    mutating func accepted(_ clientID: String, keyID: String, at now: Timestamp) { accepted[[clientID, keyID]] = now }

    /// The process believes Apple's rejection of a token. The configuration at that moment counts, not the one at the commit.
    mutating func believes(_ work: DueRevocation, keyID: String?, since time: Timestamp) {
        if let accepted = accepted[[work.id.clientID, keyID ?? ""]], accepted > time { wellFounded.insert(Key(work)) }
    }

    func isWellFounded(_ work: DueRevocation) -> Bool { wellFounded.contains(Key(work)) }
    mutating func reloaded(_ clients: [String]) { accepted = accepted.filter { !clients.contains($0.key[0]) } }

    mutating func crashed() {
        (calls, accepted, wellFounded) = ([:], [:], [])
    }
}
