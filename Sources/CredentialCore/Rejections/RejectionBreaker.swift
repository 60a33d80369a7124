// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Judges Apple's answers about the tokens of one app: while it is open, it holds `invalid_grant` back, so that it is not
/// believed.
///
/// Apple evaluates the grant before it authenticates the client, so a wrong key or client, or a mistake at Apple, can answer
/// `invalid_grant` for everybody. Three causes open it, each for itself, and it closes when the last of them has ended:
///
/// - **Disproportion**: among the last `window` answers more than `max_rejections` and more than `max_rejected_percent` are rejections.
///   It ends when, of the last probes (`BreakerRules.trialLength`), no greater share is rejected: one user who has really left
///   does not keep it open, one lucky 200 does not close it.
/// - **A canary** was rejected: a user whom the operator knows to be good. It ends with a 200 about that canary.
/// - **A blamed client**: Apple answered as if our configuration were wrong. It ends with a 200 for that client. The key and the team may
///   be to blame, which all clients share, so the rejections of each other client are held too, until a 200 for that one shows that it is
///   none of its business: a Services ID that Apple refuses for good is not to hide for ever who has left the App ID.
///
/// Notifications are signed and pass by; so do proofs of revocation.
package struct RejectionBreaker: Sendable, Equatable, Codable {
    package enum Cause: String, Sendable, CaseIterable, Codable {
        case disproportion
        case canary
        case blamedClient = "blamed_client"
    }

    /// What Apple said of one token, as far as it concerns the breaker.
    package enum Finding: Sendable, Equatable {
        case valid
        case rejected
        /// `invalid_client` and its like.
        case blamed
    }

    /// Who was asked about, and why.
    package struct Subject: Sendable, Equatable {
        package var credential: CredentialID
        package var isCanary: Bool
        /// The daily check of a credential. A canary asked out of turn says nothing of proportions, and of a rejection that Apple repeats
        /// the first was counted.
        package var isCheck: Bool

        package init(_ credential: CredentialID, isCanary: Bool = false, isCheck: Bool = true) {
            self.credential = credential
            self.isCanary = isCanary
            self.isCheck = isCheck
        }
    }

    package enum Admission: Sendable, Equatable {
        /// It waits for the settle time.
        case pending
        /// It is forgotten; the user is asked about again at the next check.
        case held
    }

    /// Since when it is open.
    package private(set) var openedAt: Timestamp?
    /// Whom Apple has blamed and not accepted since.
    package private(set) var blamedClients: Set<String> = []
    /// Clients that had a 200 since Apple last began to blame one of the app.
    private var clearedClients: Set<String> = []
    package private(set) var rejectedCanaries: Set<CredentialID> = []
    /// When an operator last said that the rejections are real: those answered by then are believed.
    package private(set) var confirmedAt: Timestamp?
    /// When an operator said so of rejections that were out of proportion: the proportion is not minded for a while.
    package private(set) var mutedAt: Timestamp?
    /// When the rejections last went out of proportion.
    package private(set) var outOfProportionAt: Timestamp?
    private var window = AnswerWindow()
    /// The answers to probes since the rejections were out of proportion; nil while they are not.
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

    /// Whether the whole app is asked slowly. A client that Apple blames has a pause of its own, and holds up no other.
    package var isProbed: Bool { causes.contains { $0 != .blamedClient } }

    /// Whether the rejections of a client's tokens are held.
    package func holds(_ clientID: String) -> Bool {
        isProbed || !blamedClients.isEmpty && !clearedClients.contains(clientID)
    }

    /// Whether it holds the rejections of some client that another one, or the same one earlier, does not.
    package func holdsMore(than other: RejectionBreaker) -> Bool {
        if other.isProbed { return false }
        if isProbed || other.blamedClients.isEmpty { return isOpen }
        return !blamedClients.isEmpty && !other.clearedClients.isSubset(of: clearedClients)
    }

    /// The last answers that were judged, and how many of them were rejections. While they are out of proportion, those before that.
    package var judged: (answers: Int, rejections: Int) { (window.count, window.rejections) }

    /// The probes since then, and how many of them were rejected.
    package var probed: (answers: Int, rejections: Int) { (trial?.count ?? 0, trial?.rejections ?? 0) }

    /// Takes an answer in. Answers count in the order in which they are judged.
    ///
    /// - Returns: what becomes of a rejection.
    @discardableResult
    package mutating func judge(_ finding: Finding, of subject: Subject, under rules: BreakerRules, at now: Timestamp) -> Admission {
        // A confirmation that has yet to come is from a clock that has since been set back, and confirms nothing.
        if let confirmedAt, now < confirmedAt { self.confirmedAt = nil }
        if let mutedAt, now < mutedAt { self.mutedAt = nil }
        switch finding {
        case .valid:
            blamedClients.remove(subject.credential.clientID)
            clearedClients.insert(subject.credential.clientID)
            rejectedCanaries.remove(subject.credential)
            if subject.isCheck { count(isRejection: false, under: rules, at: now) }
        case .rejected:
            if subject.isCanary { rejectedCanaries.insert(subject.credential) }
            if subject.isCheck { count(isRejection: true, under: rules, at: now) }
        case .blamed:
            // What is known of the others was said before.
            if blamedClients.insert(subject.credential.clientID).inserted { clearedClients = [] }
        }
        update(at: now)
        return holds(subject.credential.clientID) ? .held : .pending
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
        // The operator has said that there are many: they are no news for an interval.
        if let mutedAt, now < mutedAt.advanced(by: rules.confirmation) { return }
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

    /// Whether an operator may still say of the last rejections out of proportion that they are real, although it has closed.
    package func hasRecentEpisode(at now: Timestamp) -> Bool {
        outOfProportionAt.map { $0 <= now && now < $0.advanced(by: BreakerRules.episodeMemory) } ?? false
    }

    /// The rejections are real: it closes, and believes what is pending. After rejections out of proportion it minds no proportion for
    /// an interval; otherwise it goes on watching.
    package mutating func confirm(at now: Timestamp) {
        let wasOutOfProportion = trial != nil || hasRecentEpisode(at: now)
        let window = window
        self = RejectionBreaker()
        confirmedAt = now
        if wasOutOfProportion { mutedAt = now } else { self.window = window }
    }

    /// Open, and knowing nothing: for a state that cannot be read. It closes when answers prove normal.
    package static func distrustful(since now: Timestamp) -> RejectionBreaker {
        var breaker = RejectionBreaker()
        breaker.trial = AnswerWindow()
        breaker.outOfProportionAt = now
        breaker.update(at: now)
        return breaker
    }

    /// A state that cannot be read and that no daemon has met yet: open, and nobody knows since when.
    package static let unread = distrustful(since: Timestamp(milliseconds: 0))

    /// It closes and forgets what it has seen, and believes nothing for that.
    package mutating func reset() {
        self = RejectionBreaker()
    }

    /// Forgets those of whom no answer can come any more: canaries and clients that left the configuration.
    package mutating func keep(canaries: Set<String>, clients: Set<String>, at now: Timestamp) {
        rejectedCanaries = rejectedCanaries.filter { canaries.contains($0.userID) && clients.contains($0.clientID) }
        blamedClients.formIntersection(clients)
        clearedClients.formIntersection(clients)
        update(at: now)
    }

    /// Forgets a client of which nobody is left to ask about.
    package mutating func forget(client: String, at now: Timestamp) {
        blamedClients.remove(client)
        update(at: now)
    }

    /// Forgets a canary whose token is gone.
    package mutating func forget(canary: CredentialID, at now: Timestamp) {
        rejectedCanaries.remove(canary)
        update(at: now)
    }
}

/// A breaker as a store has it.
package enum StoredBreaker: Sendable, Equatable {
    case readable(RejectionBreaker)
    /// Of another release, or changed by hand: it may have been open.
    case unreadable

    /// The breaker that judges from now on.
    package func breaker(at now: Timestamp) -> RejectionBreaker {
        switch self {
        case .readable(let breaker): breaker
        case .unreadable: .distrustful(since: now)
        }
    }
}
