// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The answer to a code, as the process got it.
struct AnsweredExchange {
    var outcome: EndpointAnswer<ExchangeNews>
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
    struct Key: Hashable {
        var row: Int64
        var claim: Claim
    }

    private struct Sending {
        var claim: Claim
        var claimedAt: Timestamp
        /// Whether the process heard that Apple took or refused the code.
        var isHeard = false
        var isCommitted = false
        /// Whether its claim has ended, with or without a commit.
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
        let claimedAt = claimedAt[Key(row: work.id, claim: work.claim)] ?? truth
        defer { sendings[work.id, default: []].append(Sending(claim: work.claim, claimedAt: claimedAt)) }
        if isPunctual, now >= deadline {
            return Violation(.stateFollowsFromFacts, "code \(work.id) is sent \(deadline.duration(to: now)) after its deadline")
        }
        let known = sendings[work.id]?.first { $0.isCommitted || !$0.isOver && $0.claim == work.claim }
        return known.map { _ in Violation(.effectsAreOnce, "code \(work.id) is sent twice under one claim") }
    }

    /// - Returns: the violation, if the process may not claim the code to send it.
    mutating func claimed(_ work: ClaimedCode, truly truth: Timestamp) -> Violation? {
        claimedAt[Key(row: work.id, claim: work.claim)] = truth
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
        calls[Key(row: work.id, claim: work.claim)] = call
        switch call.outcome {
        case .news(.issued), .news(.refused):
            if let last = sendings[work.id]?.lastIndex(where: { $0.claim == work.claim }) { sendings[work.id]![last].isHeard = true }
        case .misconfigured, .throttled, .unavailable: break
        }
    }

    mutating func foundUnknown(_ work: ClaimedCode, at now: Timestamp) {
        unknownAt[Key(row: work.id, claim: work.claim)] = now
    }

    /// When the process looked up the client of a code and did not find it. Removes that time, because another claim may have the same
    /// name.
    mutating func settledUnknown(_ work: ClaimedCode) -> Timestamp? { unknownAt.removeValue(forKey: Key(row: work.id, claim: work.claim)) }

    /// Takes out the answer after the commit of the settlement.
    mutating func settled(_ work: ClaimedCode, _ result: Settled) -> AnsweredExchange? {
        if case .grant = result {
            for index in (sendings[work.id] ?? []).indices { sendings[work.id]![index].isCommitted = true }
        }
        for index in (sendings[work.id] ?? []).indices where sendings[work.id]![index].claim == work.claim {
            sendings[work.id]![index].isOver = true
        }
        return calls.removeValue(forKey: Key(row: work.id, claim: work.claim))
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
