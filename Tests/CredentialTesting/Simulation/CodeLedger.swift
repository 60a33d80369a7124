// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What a code was answered with, as the process heard it.
struct AnsweredExchange {
    var outcome: ExchangeOutcome
    /// The sign-in behind it, where Apple has taken the code.
    var identity: ScriptedApple.Identity?
    var token: String?
    /// The team that asked.
    var team: String?
    /// As the process is to date the request and the answer.
    var sentAt: Timestamp
    var dated: Timestamp
    var trulySentAt: Timestamp
    var answeredAt: Timestamp
}

/// Which code was sent when, and what came of it.
struct CodeLedger {
    struct Key: Hashable {
        var row: Int64
        var claim: Claim
    }

    private struct Sending {
        var claim: Claim
        var claimedAt: Timestamp
        /// Whether the process heard that Apple took the code, or will not.
        var isHeard = false
        var isCommitted = false
        /// Whether its claim has ended, one way or the other.
        var isOver = false
    }

    /// Shorter than the lease of a code.
    private static let shortestLease = Duration.seconds(120)

    private var sendings: [Int64: [Sending]] = [:]
    private var calls: [Key: AnsweredExchange] = [:]
    private var claimedAt: [Key: Timestamp] = [:]
    private var unknownAt: [Key: Timestamp] = [:]

    /// - Parameter isPunctual: whether the clock has always been right.
    /// - Returns: what is wrong with sending it now.
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

    /// - Returns: what is wrong with taking it up to send it.
    mutating func claimed(_ work: ClaimedCode, truly truth: Timestamp) -> Violation? {
        claimedAt[Key(row: work.id, claim: work.claim)] = truth
        // A process that stood still for longer than the lease has lost what it heard, be it that it sent the code after that.
        let known = sendings[work.id]?.first { $0.isCommitted || $0.isHeard && $0.claimedAt.duration(to: truth) < Self.shortestLease }
        return known.map { _ in Violation(.effectsAreOnce, "code \(work.id) is to be sent again, though its answer is known") }
    }

    /// - Returns: what is wrong with not sending it at all.
    func unsent(_ work: ClaimedCode, deadline: Timestamp, isPunctual: Bool, at now: Timestamp) -> Violation? {
        guard isPunctual, now < deadline else { return nil }
        return Violation(.nothingIsStuck, "code \(work.id) is given up \(now.duration(to: deadline)) before its deadline")
    }

    mutating func answered(_ work: ClaimedCode, _ call: AnsweredExchange) {
        calls[Key(row: work.id, claim: work.claim)] = call
        switch call.outcome {
        case .issued, .refused:
            if let last = sendings[work.id]?.lastIndex(where: { $0.claim == work.claim }) { sendings[work.id]![last].isHeard = true }
        case .misconfigured, .throttled, .unavailable: break
        }
    }

    mutating func foundUnknown(_ work: ClaimedCode, at now: Timestamp) {
        unknownAt[Key(row: work.id, claim: work.claim)] = now
    }

    /// When the client of a code was looked for and not found. Takes that out: another claim may have the same name.
    mutating func settledUnknown(_ work: ClaimedCode) -> Timestamp? { unknownAt.removeValue(forKey: Key(row: work.id, claim: work.claim)) }

    /// Takes out what was answered, once the settlement has been committed.
    mutating func settled(_ work: ClaimedCode, _ result: Settled) -> AnsweredExchange? {
        if case .grant = result {
            for index in (sendings[work.id] ?? []).indices { sendings[work.id]![index].isCommitted = true }
        }
        for index in (sendings[work.id] ?? []).indices where sendings[work.id]![index].claim == work.claim {
            sendings[work.id]![index].isOver = true
        }
        return calls.removeValue(forKey: Key(row: work.id, claim: work.claim))
    }

    /// What was heard and not committed is unknown from now on.
    mutating func crashed() {
        calls = [:]
        unknownAt = [:]
        for row in sendings.keys {
            for index in sendings[row]!.indices { sendings[row]![index].isHeard = false }
        }
    }
}
