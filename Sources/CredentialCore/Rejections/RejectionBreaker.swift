// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Judges Apple's answers about the tokens of one app. While it is open, it holds `invalid_grant` answers back, so that siwatch does not
/// believe them.
///
/// Apple evaluates the grant before it authenticates the client. So a wrong key or client, or a mistake at Apple, can bring `invalid_grant`
/// for every user. Each of three causes opens the breaker, and it closes when the last cause has ended:
///
/// - **Disproportion**: of the last `window` answers, more than `max_rejections` and more than `max_rejected_percent` are rejections. It
///   ends when no greater share of the last probes (`BreakerRules.trialLength`) is rejected. So one user who has really left does not keep
///   it open, and one lucky 200 does not close it.
/// - **A canary** was rejected: a user that the operator knows to be good. It ends with a 200 about that canary.
/// - **A blamed client**: Apple answered as if our configuration were wrong. It ends with a 200 for that client. The key or the team may be
///   wrong, which all clients share. So the breaker holds the rejections of each other client too, until a 200 for that client shows that
///   it is not affected. A Services ID that Apple refuses for good must not hide for ever which users have left the App ID.
///
/// Notifications are signed and bypass the breaker. So does the rejection of a token that siwatch has revoked. A rejection at the first
/// question of a proof waits while the breaker holds the client.
package struct RejectionBreaker: Sendable, Equatable, Codable {
    package enum Cause: String, Sendable, CaseIterable, Codable {
        case disproportion
        case canary
        case blamedClient = "blamed_client"
    }

    /// Apple's answer about one token, as far as it concerns the breaker.
    package enum Finding: Sendable, Equatable {
        case valid
        case rejected
        /// `invalid_client` and its like.
        case blamed
    }

    /// The credential that siwatch asks about, and the reason.
    package struct Subject: Sendable, Equatable {
        package var credential: CredentialID
        package var isCanary: Bool
        /// Whether the answer counts in the window of the breaker. Only that of a daily check does. A canary's extra question says nothing of
        /// proportions, and of a repeated rejection the first one was counted.
        package var isCheck: Bool
        /// When Apple gave its last answer about the token, if that was a rejection.
        package var rejectedAt: Timestamp?

        package init(_ credential: CredentialID, isCanary: Bool = false, isCheck: Bool = true, rejectedAt: Timestamp? = nil) {
            self.credential = credential
            self.isCanary = isCanary
            self.isCheck = isCheck
            self.rejectedAt = rejectedAt
        }
    }

    package enum Admission: Sendable, Equatable {
        case pending
        /// Apple repeats a rejection that an operator has confirmed since. It counts as one of that moment, so it is believed.
        case confirmed(at: Timestamp)
        /// The rejection is forgotten. siwatch asks about the user again at the next check.
        case held
    }

    package private(set) var openedAt: Timestamp?
    /// The clients that Apple has blamed and not accepted since.
    package private(set) var blamedClients: Set<String> = []
    /// The clients that have had a 200 since Apple last began to blame a client of the app.
    private var clearedClients: Set<String> = []
    package private(set) var rejectedCanaries: Set<CredentialID> = []
    /// When an operator last confirmed the rejections. Those that Apple had given by then are believed: the pending ones at once, the
    /// dropped ones if Apple's next answer repeats them.
    package private(set) var confirmedAt: Timestamp?
    /// Until when the breaker ignores the proportion, because an operator has confirmed disproportionate rejections.
    package private(set) var mutedUntil: Timestamp?
    private(set) var outOfProportionAt: Timestamp?
    private var window = AnswerWindow()
    /// The answers to probes since the rejections went out of proportion; nil while they are in proportion.
    private var trial: AnswerWindow?

    package init() {}

    package var isOpen: Bool { openedAt != nil }

    package var causes: [Cause] {
        var causes: [Cause] = []
        if trial != nil { causes.append(.disproportion) }
        if !rejectedCanaries.isEmpty { causes.append(.canary) }
        if !blamedClients.isEmpty { causes.append(.blamedClient) }
        return causes
    }

    /// Whether siwatch asks slowly about the whole app. A client that Apple blames has its own pause and does not slow the others.
    package var isProbed: Bool { causes.contains { $0 != .blamedClient } }

    package func holds(_ clientID: String) -> Bool {
        isProbed || !blamedClients.isEmpty && !clearedClients.contains(clientID)
    }

    /// Whether the breaker holds the rejections of a client whose rejections `other` does not hold.
    package func holdsMore(than other: RejectionBreaker) -> Bool {
        if other.isProbed { return false }
        if isProbed || other.blamedClients.isEmpty { return isOpen }
        return !blamedClients.isEmpty && !other.clearedClients.isSubset(of: clearedClients)
    }

    /// The last judged answers, and how many were rejections. While rejections are out of proportion, the answers before that.
    package var judged: (answers: Int, rejections: Int) { (window.count, window.rejections) }

    /// The probes since the rejections went out of proportion, and how many were rejected.
    package var probed: (answers: Int, rejections: Int) { (trial?.count ?? 0, trial?.rejections ?? 0) }

    /// Takes an answer, in the order in which answers are judged, and says what happens to a rejection.
    @discardableResult
    package mutating func judge(_ finding: Finding, of subject: Subject, under rules: BreakerRules, at now: Timestamp) -> Admission {
        // A confirmation in the future came from a clock that has since been set back, and confirms nothing.
        if let confirmedAt, now < confirmedAt { (self.confirmedAt, mutedUntil) = (nil, nil) }
        var confirmed: Admission?
        switch finding {
        case .valid:
            blamedClients.remove(subject.credential.clientID)
            clearedClients.insert(subject.credential.clientID)
            rejectedCanaries.remove(subject.credential)
            if subject.isCheck { count(isRejection: false, under: rules, at: now) }
        case .rejected:
            if subject.isCanary { rejectedCanaries.insert(subject.credential) }
            if let confirmedAt, let rejectedAt = subject.rejectedAt, rejectedAt <= confirmedAt { confirmed = .confirmed(at: confirmedAt) }
            // The window counts a user's rejection once.
            if subject.isCheck, confirmed == nil { count(isRejection: true, under: rules, at: now) }
        case .blamed:
            // A 200 for another client from before this blame says nothing now.
            if blamedClients.insert(subject.credential.clientID).inserted { clearedClients = [] }
        }
        update(at: now)
        return holds(subject.credential.clientID) ? .held : confirmed ?? .pending
    }

    private mutating func count(isRejection: Bool, under rules: BreakerRules, at now: Timestamp) {
        if trial != nil {
            trial!.append(isRejection, capacity: rules.trialLength)
            if trial!.count >= rules.trialLength, !rules.isTooGreatAShare(trial!.rejections, of: trial!.count) {
                window = trial!
                trial = nil
            }
            return
        }
        if isMuted(at: now) { return }
        window.append(isRejection, capacity: rules.window)
        if isRejection, window.rejections > rules.maxRejections, rules.isTooGreatAShare(window.rejections, of: window.count) {
            trial = AnswerWindow()
            outOfProportionAt = now
        }
    }

    private mutating func update(at now: Timestamp) {
        if blamedClients.isEmpty { clearedClients = [] }
        openedAt = causes.isEmpty ? nil : openedAt ?? now
    }

    /// Whether an operator may still confirm the last disproportionate rejections, although the breaker has closed.
    package func hasRecentEpisode(at now: Timestamp) -> Bool {
        outOfProportionAt.map { $0 <= now && now < $0.advanced(by: BreakerRules.episodeMemory) } ?? false
    }

    package func isMuted(at now: Timestamp) -> Bool { isGreater(mutedUntil, than: now) }

    /// Closes the breaker because the rejections are real. After disproportionate ones it ignores the proportion for `interval`, by when
    /// siwatch has asked about every user once more.
    package mutating func confirm(at now: Timestamp, within interval: Duration) {
        let wasOutOfProportion = trial != nil || hasRecentEpisode(at: now) || isMuted(at: now)
        let window = window
        self = RejectionBreaker()
        confirmedAt = now
        if wasOutOfProportion { mutedUntil = now.advanced(by: interval) } else { self.window = window }
    }

    /// An open breaker without any answers, in place of an unreadable state. It closes when answers prove normal.
    package static func distrustful(since now: Timestamp) -> RejectionBreaker {
        var breaker = RejectionBreaker()
        breaker.trial = AnswerWindow()
        breaker.outOfProportionAt = now
        breaker.update(at: now)
        return breaker
    }

    /// The breaker of an unreadable state: written by another release, or changed by hand. It may have been open, since an unknown time.
    package static let unread = distrustful(since: Timestamp(milliseconds: 0))

    package func breaker(at now: Timestamp) -> RejectionBreaker { self == .unread ? .distrustful(since: now) : self }

    /// Forgets canaries and clients that have left the configuration, because no answer about them can come.
    package mutating func keep(canaries: Set<String>, clients: Set<String>, at now: Timestamp) {
        rejectedCanaries = rejectedCanaries.filter { canaries.contains($0.userID) && clients.contains($0.clientID) }
        blamedClients.formIntersection(clients)
        clearedClients.formIntersection(clients)
        update(at: now)
    }

    /// Forgets a client without any token to ask about.
    package mutating func forget(client: String, at now: Timestamp) {
        blamedClients.remove(client)
        update(at: now)
    }

    package mutating func forget(canary: CredentialID, at now: Timestamp) {
        rejectedCanaries.remove(canary)
        update(at: now)
    }
}
