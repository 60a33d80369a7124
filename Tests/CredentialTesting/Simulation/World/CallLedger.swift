// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// One question about a token, with Apple's answer, as the simulation recorded it.
struct AnsweredCall {
    var credential: CredentialID
    var outcome: EndpointAnswer<RefreshNews>
    /// The time that the process must record.
    var sentAt: Timestamp
    var trulySentAt: Timestamp
    var answeredAt: Timestamp
    /// Whether the token was dead at this client by the time of the answer: the truth behind an `invalid_grant`.
    var isDead: Bool
    /// The asking team.
    var team: String?
}

/// The simulation's record of all questions about tokens, and of the committed answers.
struct CallLedger {
    struct Key: Hashable {
        var credential: CredentialID
        var claim: Claim
        var token: RefreshToken.Key
        /// Tells two calls about a canary apart, because claims do not.
        var canaryAskedAt: Timestamp?

        init(_ work: DueCredential, sentAt: Timestamp?) {
            (credential, claim, token) = (work.id, work.claim, work.token)
            if work.purpose == .canary { canaryAskedAt = sentAt }
        }
    }

    /// Shorter than any lease of a credential.
    private static let shortestLease = Duration.seconds(60)

    private static let canaryInterval = Duration.seconds(3600)
    /// The shortest time between two of an operator's rechecks, which may come out of turn.
    private static let recheckInterval = Duration.seconds(3600)

    /// One sign-in's token.
    private struct TokenKey: Hashable {
        var credential: CredentialID
        var token: RefreshToken.Key

        init(_ work: DueCredential) { (credential, token) = (work.id, work.token) }
    }

    private struct Check {
        var fingerprint: [UInt8]
        var askedAt: Timestamp
        var answeredAt: Timestamp
    }

    var codes = CodeLedger()
    var proofs = ProofLedger()
    private let interval: Duration
    /// A claim may share its name with one that was lost long before. Then both have a call.
    private var calls: [Key: [AnsweredCall]] = [:]
    /// The last check of each credential's token that Apple answered and the store committed. A token that a backend repeats is the same.
    private var checks: [CredentialID: Check] = [:]
    /// The rejections of each token: when Apple was asked, and whether the rejection was true.
    private var rejections: [TokenKey: [(sentAt: Timestamp, isTrue: Bool, team: String?)]] = [:]
    private var replacedAt: [CredentialID: Timestamp] = [:]
    private var canaryAskedAt: [CredentialID: Timestamp] = [:]
    private var userRecheckedAt: [String: Timestamp] = [:]
    private var allRecheckedAt: Timestamp?
    /// When the host's clock last leapt ahead. siwatch may then ask about each token once more.
    private var leaptAt: Timestamp?
    /// When the host's clock was last set. An answer from the future does not block an operator's recheck then.
    private(set) var setAt: Timestamp?
    private(set) var answers = 0
    private(set) var requests = 0

    init(interval: Duration) { self.interval = interval }

    /// - Returns: the violation, if the process may not ask now.
    mutating func sent(_ work: DueCredential, at now: Timestamp) -> Violation? {
        requests += 1
        if work.purpose == .canary {
            defer { canaryAskedAt[work.id] = now }
            guard let last = canaryAskedAt[work.id], now < last.advanced(by: Self.canaryInterval) else { return nil }
            return Violation(.oneAnswerPerInterval, "the canary \(work.id.userID) was asked about again \(last.duration(to: now)) later")
        }
        guard let last = checks[work.id], last.fingerprint == work.token.fingerprint, now < last.answeredAt.advanced(by: interval) else {
            return nil
        }
        if let leaptAt, leaptAt >= last.askedAt { return nil }
        let recheckedAt = latest(userRecheckedAt[work.id.userID], allRecheckedAt)
        let mayBeRechecked = now >= last.answeredAt.advanced(by: Self.recheckInterval) || setAt.map { $0 >= last.askedAt } ?? false
        if mayBeRechecked, let recheckedAt, recheckedAt >= last.askedAt { return nil }
        let distance = last.answeredAt.duration(to: now)
        return Violation(.oneAnswerPerInterval, "\(work.id.userID) was asked about again \(distance) after an answer")
    }

    mutating func answered(_ work: DueCredential, _ call: AnsweredCall) {
        calls[Key(work, sentAt: call.sentAt), default: []].append(call)
        if call.outcome == .rejected { rejections[TokenKey(work), default: []].append((call.sentAt, call.isDead, call.team)) }
    }

    /// Whether a rejection, or the last one that repeated it, was true; nil if Apple never gave it.
    func wasTrue(_ rejection: PendingRejection, of work: DueCredential) -> Bool? {
        guard let spoken = rejections[TokenKey(work)], spoken.contains(where: { $0.sentAt == rejection.requestedAt }) else { return nil }
        return spoken.last?.isTrue
    }

    func teams(of rejection: PendingRejection, _ work: DueCredential) -> Set<String?> {
        Set((rejections[TokenKey(work)] ?? []).filter { $0.sentAt == rejection.requestedAt }.map(\.team))
    }

    func wasRepeated(_ rejection: PendingRejection, of work: DueCredential) -> Bool {
        rejections[TokenKey(work)]?.last.map { $0.sentAt > rejection.requestedAt } ?? false
    }

    /// Takes out the answer to a piece of work after the commit of its settlement.
    mutating func settled(_ work: DueCredential, _ verdict: RefreshVerdict, _ result: Settled, at now: Timestamp) -> AnsweredCall? {
        let key = Key(work, sentAt: verdict.requestedAt ?? work.clientAnswer?.requestedAt)
        guard let known = calls[key], let place = known.firstIndex(where: { $0.is(verdict) }) ?? known.indices.last else { return nil }
        let call = known[place]
        let lapsed = call.trulySentAt.duration(to: now) >= Self.shortestLease
        // No claim holds a canary, so its repeated settlement counts again, with the same result.
        if result == .refreshed, work.purpose == .check { calls[key]!.remove(at: place) }
        switch call.outcome {
        case .news(.valid), .news(.unnamed), .news(.rejected):
            // The process stood still, and its answer came after the lease. siwatch may then ask again.
            let isReplaced = replacedAt[work.id].map { call.trulySentAt <= $0 } ?? false
            if !lapsed, !isReplaced, work.purpose == .check, checks[work.id].map({ $0.answeredAt <= call.answeredAt }) ?? true {
                checks[work.id] = Check(fingerprint: work.token.fingerprint, askedAt: call.trulySentAt, answeredAt: call.answeredAt)
            }
            if result == .refreshed { answers += 1 }
        case .news(.ambiguous), .news(.anotherUser), .misconfigured, .throttled, .unavailable: break
        }
        return call
    }

    /// The host's clock was set. A check in the future then no longer tells when the canary was asked about.
    mutating func clockWasSet(ahead: Bool, at now: Timestamp) {
        if ahead { leaptAt = now }
        setAt = now
        canaryAskedAt = [:]
    }

    /// The restored database has lost everything since the backup. The clock setting stays.
    mutating func restore(_ backup: CallLedger) {
        let (leaptAt, setAt) = (leaptAt, setAt)
        self = backup
        (self.leaptAt, self.setAt) = (leaptAt, setAt)
        canaryAskedAt = [:]
    }

    /// Another token has replaced the token that Apple was asked about. Its answers bind no longer, even if the token comes back.
    mutating func replaced(_ credential: CredentialID, at now: Timestamp) {
        checks[credential] = nil
        replacedAt[credential] = now
    }

    /// An operator knows that the user has left by now, even if Apple's last rejection came before that.
    mutating func confirmed(_ credential: CredentialID) {
        for key in rejections.keys where key.credential == credential { rejections[key]![rejections[key]!.count - 1].isTrue = true }
    }

    mutating func rechecked(_ user: String, at now: Timestamp) { userRecheckedAt[user] = now }
    mutating func recheckedAll(at now: Timestamp) { allRecheckedAt = now }

    /// After a crash the process may repeat the requests in flight.
    mutating func crashed() {
        calls = [:]
        codes.crashed()
        proofs.crashed()
    }

    /// Apple has just issued the token. The exchange is its first check.
    mutating func issued(_ credential: CredentialID, _ call: AnsweredExchange) {
        guard let fingerprint = call.token.map({ PlainSealer().fingerprint(of: Secret($0)) }) else { return }
        checks[credential] = Check(fingerprint: fingerprint, askedAt: call.trulySentAt, answeredAt: call.answeredAt)
    }
}

extension AnsweredCall {
    fileprivate func `is`(_ verdict: RefreshVerdict) -> Bool {
        switch (outcome, verdict) {
        case (.news(.valid), .valid(let requestedAt, _)), (.news(.unnamed), .unnamed(let requestedAt, _)): sentAt == requestedAt
        case (.news(.rejected), .rejected(let rejection, _)): sentAt == rejection.requestedAt
        case (.news(.ambiguous), .unclear), (.news(.anotherUser), .anotherUser), (.misconfigured, .failed(.misconfigured, _, _)),
            (.throttled, .failed(.throttled, _, _)), (.unavailable, .failed(.unavailable, _, _)):
            true
        default: false
        }
    }
}
