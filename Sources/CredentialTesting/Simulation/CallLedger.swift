// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore

/// One question that Apple answered, as the simulation wrote it down.
struct AnsweredCall {
    var credential: CredentialID
    var outcome: RefreshOutcome
    var sentAt: Timestamp
    var answeredAt: Timestamp
    /// Whether the token was dead by the time of the answer: the truth behind an `invalid_grant`.
    var isDead: Bool
}

/// Who was asked about when, and whose answer was committed.
struct CallLedger {
    struct Key: Hashable {
        var credential: CredentialID
        var claim: Claim
        var token: RefreshToken.Key
        /// What tells one call about a canary from the next: no claim does.
        var canaryAskedAt: Timestamp?

        init(_ work: DueCredential, sentAt: Timestamp?) {
            credential = work.id
            claim = work.claim
            token = work.token
            if work.purpose == .canary { canaryAskedAt = sentAt }
        }
    }

    /// Shorter than any lease of a credential.
    private static let shortestLease = Duration.seconds(60)

    private static let canaryInterval = Duration.seconds(3600)
    /// An operator's recheck is out of turn, and not more often than this.
    private static let recheckInterval = Duration.seconds(3600)

    private struct TokenKey: Hashable {
        var credential: CredentialID
        var token: RefreshToken.Key

        init(_ work: DueCredential) {
            credential = work.id
            token = work.token
        }
    }

    private struct Check {
        var token: RefreshToken.Key
        var askedAt: Timestamp
        var answeredAt: Timestamp
    }

    private let interval: Duration
    private var calls: [Key: AnsweredCall] = [:]
    /// The last check of each credential that Apple answered and whose answer reached the store.
    private var checks: [CredentialID: Check] = [:]
    /// The rejections of each token: when Apple was asked, and whether it told the truth.
    private var rejections: [TokenKey: [(sentAt: Timestamp, isTrue: Bool)]] = [:]
    private var canaryAskedAt: [CredentialID: Timestamp] = [:]
    /// When an operator last wanted somebody to be asked about out of turn.
    private var userRecheckedAt: [String: Timestamp] = [:]
    private var allRecheckedAt: Timestamp?
    private(set) var answers = 0
    private(set) var requests = 0

    init(interval: Duration) {
        self.interval = interval
    }

    /// - Returns: what is wrong with asking now.
    mutating func sent(_ work: DueCredential, at now: Timestamp) -> Violation? {
        requests += 1
        if work.purpose == .canary {
            defer { canaryAskedAt[work.id] = now }
            guard let last = canaryAskedAt[work.id], now < last.advanced(by: Self.canaryInterval) else { return nil }
            return Violation(.oneAnswerPerInterval, "the canary \(work.id.userID) was asked about again \(last.duration(to: now)) later")
        }
        guard let last = checks[work.id], now < last.answeredAt.advanced(by: interval) else { return nil }
        // Of an answer that came after its token had been replaced an operator's recheck knows nothing.
        let recheckedAt = latest(userRecheckedAt[work.id.userID], allRecheckedAt)
        let mayBeRechecked = last.token != work.token || now >= last.answeredAt.advanced(by: Self.recheckInterval)
        if mayBeRechecked, let recheckedAt, recheckedAt >= last.askedAt { return nil }
        let distance = last.answeredAt.duration(to: now)
        return Violation(.oneAnswerPerInterval, "\(work.id.userID) was asked about again \(distance) after an answer")
    }

    mutating func answered(_ work: DueCredential, _ call: AnsweredCall) {
        calls[Key(work, sentAt: call.sentAt)] = call
        if call.outcome == .rejected {
            rejections[TokenKey(work), default: []].append((call.sentAt, call.isDead))
        }
    }

    /// Whether the rejection of a token was true, or the last one that repeated it; nil where Apple said no such thing.
    func wasTrue(_ rejection: PendingRejection, of work: DueCredential) -> Bool? {
        guard let spoken = rejections[TokenKey(work)], spoken.contains(where: { $0.sentAt == rejection.requestedAt }) else { return nil }
        return spoken.last?.isTrue
    }

    func wasRepeated(_ rejection: PendingRejection, of work: DueCredential) -> Bool {
        rejections[TokenKey(work)]?.last.map { $0.sentAt > rejection.requestedAt } ?? false
    }

    /// Takes out what was answered to a piece of work, once the settlement has been committed.
    mutating func settled(_ work: DueCredential, _ verdict: RefreshVerdict, _ result: Settled, at now: Timestamp) -> AnsweredCall? {
        let key = Key(work, sentAt: verdict.fact?.requestedAt ?? verdict.rejection?.requestedAt)
        guard let call = calls[key] else { return nil }
        let lapsed = call.sentAt.duration(to: now) >= Self.shortestLease
        // Nothing holds a canary: a settlement that is repeated counts again, and says the same.
        if result == .refreshed, work.purpose == .check { calls[key] = nil }
        switch call.outcome {
        case .valid, .rejected:
            // An answer that came after its lease may be asked for again: the process stood still.
            if !lapsed, work.purpose == .check, checks[work.id].map({ $0.answeredAt <= call.answeredAt }) ?? true {
                checks[work.id] = Check(token: work.token, askedAt: call.sentAt, answeredAt: call.answeredAt)
            }
            if result == .refreshed { answers += 1 }
        case .ambiguous, .misconfigured, .throttled, .unavailable: break
        }
        return call
    }

    mutating func rechecked(_ user: String, at now: Timestamp) {
        userRecheckedAt[user] = now
    }

    mutating func recheckedAll(at now: Timestamp) {
        allRecheckedAt = now
    }

    /// What was in flight at a crash may be asked again.
    mutating func crashed() {
        calls = [:]
    }
}
