// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension ReferenceModel {
    /// Whether a newer sign-in of the credential waits.
    func goesAfterGrant(_ work: DueCredential, at now: Timestamp) -> Bool {
        !waitingGrants(at: now) { $0.credential == work.id && $0.grantedAt > work.token.grantedAt }.isEmpty
    }

    func isCurrent(_ work: DueCredential) -> Bool { facts[work.id]?.token == Token(work.token) }

    /// Apple rejects the token in use and has never accepted it. siwatch takes the other token again, if it keeps one. It also does so if
    /// the other token is newer and the rejection says nothing about the newest sign-in.
    @discardableResult
    mutating func fallBack(_ credential: CredentialID) -> Bool {
        guard let token = facts[credential]!.token, let former = formerToken(of: credential)?.token else { return false }
        let answers = facts[credential]!.answers.filter { $0.token == token }
        guard let rejectedAt = answers.filter({ !$0.isValid }).map(\.at).max() else { return false }
        if let acceptedAt = answers.filter(\.isValid).map(\.at).max() {
            let isNewer = Oracle(tokens: [former, token]).token == former
            guard isNewer, rejectedAt > acceptedAt, !facts[credential]!.tokenSpeaksOfUser else { return false }
        }
        take(former, of: credential)
        facts[credential]!.former = (token, nil)
        return true
    }

    /// Apple says that the token in use is another user's. siwatch takes the previous one again if Apple had accepted it, and keeps both.
    private mutating func putBackForeignToken(of credential: CredentialID) {
        guard let token = facts[credential]!.token, let former = formerToken(of: credential)?.token, !facts[credential]!.isAccepted(token),
            facts[credential]!.isAccepted(former)
        else { return }
        let text = holdsToken(credential) ? facts[credential]!.texts[token] : nil
        take(former, of: credential)
        facts[credential]!.former = (token, text)
    }

    private mutating func take(_ token: Token, of credential: CredentialID) {
        facts[credential]!.setAside.remove(token)
        while let newest = facts[credential]!.token, newest != token { facts[credential]!.setAside.insert(newest) }
        facts[credential]!.held = nil
    }

    mutating func settle(_ work: ClaimedNotification, _ verdict: NotificationVerdict, at now: Timestamp) -> Settled {
        guard let row = notificationRows[work.id], row.held == work.claim else { return .superseded }
        if work.claim.attempts > 5 { return quarantine(work.id, .poison) }
        guard case .notice(let notice) = row.post else { return quarantine(work.id, .badSignature) }
        if case .rejected(.unknownKey, _) = verdict { return quarantine(work.id, .unknownKey) }
        let newer = waitingGrants(at: now) {
            $0.credential.userID == notice.credential.userID && appOfClient[$0.credential.clientID] == notice.app
                && $0.grantedAt >= notice.at
        }
        let waits = notice.isEnd && isWorthWaiting(for: newer, since: row.receivedAt, at: now)
        let isPostponed = if case .postponed = verdict { true } else { false }
        if !isPostponed, !isConfigured(notice.credential.clientID) { return quarantine(work.id, .wrongAudience) }
        if isPostponed || waits {
            notificationRows[work.id]!.held = nil
            return .postponed
        }
        notificationRows[work.id] = nil
        let user = notice.credential.userID
        touched.insert(user)
        let isFirst = userFacts[user, default: UserFacts()].logged.insert("\(notice.kind.rawValue) \(notice.at.milliseconds)").inserted
        if notice.kind == .unknown { return .notification(isFirst ? .unknownType : .duplicate) }
        let moved = userFacts[user]!.apply(notice)
        if facts[notice.credential] == nil { facts[notice.credential] = Facts() }
        guard isFirst else { return .notification(.duplicate) }
        let grants = credentials(of: user).compactMap { facts[$0]?.grants.max() }
        let isOutdated = notice.isEnd && !grants.isEmpty && grants.allSatisfy { $0 >= notice.at }
        return .notification(moved && !isOutdated ? .applied : .stale)
    }

    private mutating func quarantine(_ row: Int64, _ reason: RejectionReason) -> Settled {
        notificationRows[row] = nil
        return .quarantined(reason)
    }

    /// - Returns: the allowed results. The breaker decides whether siwatch holds a rejection.
    mutating func settle(_ work: DueCredential, _ verdict: RefreshVerdict, _ call: AnsweredCall?, at now: Timestamp) -> [Settled] {
        let token = Token(work.token)
        guard isCurrent(work), work.purpose == .canary || isHeld(work) else { return [.superseded] }
        if work.purpose != .canary { facts[work.id]!.held = nil }
        touched.insert(work.id.userID)
        hear(call.flatMap { ClientWord($0.outcome, sentAt: $0.sentAt) }, of: work.id.clientID, at: now)
        if work.purpose == .check, call?.outcome.isAnswer ?? false { facts[work.id]!.rechecked = nil }
        switch call?.outcome {
        case .news(.valid): accept(token, of: work.id, at: call!.sentAt, by: call!.team)
        // An earlier answer must have named the user.
        case .news(.unnamed): if facts[work.id]!.isAccepted(token) { accept(token, of: work.id, at: call!.sentAt, by: call!.team) }
        case .news(.rejected):
            if facts[work.id]!.isAccepted(token) { rejectionsOfAccepted[appOfClient[work.id.clientID]!, default: 0] += 1 }
            return [.refreshed, .held]
        case .news(.anotherUser): if work.purpose == .check { putBackForeignToken(of: work.id) }
        case .news(.ambiguous), .misconfigured, .throttled, .unavailable, nil: break
        }
        return [.refreshed]
    }

    /// Apple calls a token good and names this user.
    mutating func accept(_ token: Token, of credential: CredentialID, at time: Timestamp, by team: String?) {
        facts[credential]!.answers.append(Oracle.Answer(token: token, isValid: true, at: time))
        facts[credential]!.teams[token, default: []].append(Acceptance(at: time, team: team ?? ""))
        if facts[credential]!.token == token { facts[credential]!.former?.text = nil }
    }

    /// A rejection that siwatch may believe. The breaker decides, unless a newer sign-in waits.
    mutating func settle(_ work: DueCredential, _ rejection: PendingRejection, _ result: Settled, at now: Timestamp) -> [Settled] {
        guard isCurrent(work), isHeld(work) else { return [.superseded] }
        facts[work.id]!.held = nil
        touched.insert(work.id.userID)
        if goesAfterGrant(work, at: now) { return [.postponed] }
        let token = Token(work.token)
        // A 200 of the same moment wins over a rejection that is believed.
        let isDisproved = facts[work.id]!.answers.contains { $0.token == token && $0.isValid && $0.at > rejection.requestedAt }
        if isDisproved { return [.postponed] }
        if result == .refreshed {
            facts[work.id]!.answers.append(Oracle.Answer(token: token, isValid: false, at: rejection.requestedAt))
            fallBack(work.id)
        }
        return [.refreshed, .postponed]
    }

    /// - Returns: whether the token is rejected, and no recheck of it was due before.
    mutating func recheck(_ credential: CredentialID) -> Bool {
        guard let row = row(of: credential), row.holdsToken, !row.isScheduled else { return false }
        facts[credential]!.rechecked = facts[credential]!.token
        touched.insert(credential.userID)
        return true
    }

    func holdsToken(_ credential: CredentialID) -> Bool { row(of: credential)?.holdsToken ?? false }

    private func isHeld(_ work: DueCredential) -> Bool { facts[work.id]?.held == work.claim }

    /// The retention erases tokens that have been rejected for a week, and forgets batches of imports after a day.
    mutating func swept(at now: Timestamp) {
        importKeys = importKeys.filter { $0.value >= now.advanced(by: .seconds(-86_400)) }
        let cutoff = now.advanced(by: .seconds(-7 * 86_400))
        for credential in credentials {
            touched.insert(credential.userID)
            guard let standing = standing(of: credential), let token = standing.keptToken, !standing.isAskedAbout,
                let rejected = standing.rejectedAt, rejected < cutoff
            else { continue }
            facts[credential]!.swept = token
        }
    }
}

extension ReferenceModel.Facts {
    var token: Oracle.Token? { Oracle(tokens: tokens.subtracting(setAside)).token }

    /// Whether the end of the newest token says something about the newest sign-in. It does if Apple has accepted the token since the
    /// sign-in, or has accepted it and the sign-in brought it.
    var tokenSpeaksOfUser: Bool {
        guard let token, let accepted = answers.filter({ $0.token == token && $0.isValid }).map(\.at).max() else { return false }
        return grants.allSatisfy { $0 <= max(token.grantedAt, accepted) }
    }

    func isAccepted(_ token: Oracle.Token) -> Bool { answers.contains { $0.token == token && $0.isValid } }
}

extension ReferenceModel.UserFacts {
    var mail: Oracle.Mail? { Oracle(deletions: deleted, accountEnds: ended, mails: mails).mail }

    mutating func apply(_ notice: ScriptedApple.Notice) -> Bool {
        let before = (consentRevoked.max(), deleted.max(), mail, Oracle(relays: relays).relay)
        switch notice.kind {
        case .consentRevoked: consentRevoked.insert(notice.at)
        case .accountDeleted: deleted.insert(notice.at)
        case .emailDisabled, .emailEnabled:
            relays.append(Oracle.Relay(at: notice.at, isEnabled: notice.kind == .emailEnabled))
            if let address = notice.address { mails.append(Oracle.Mail(address, at: notice.at, isFromEvent: true)) }
        case .unknown: break
        }
        return before != (consentRevoked.max(), deleted.max(), mail, Oracle(relays: relays).relay)
    }
}

extension EndpointAnswer<RefreshNews> {
    /// Whether Apple gave an answer about the token, even an unreadable one.
    fileprivate var isAnswer: Bool {
        switch self {
        case .news(.valid), .news(.unnamed), .news(.rejected), .news(.ambiguous), .news(.anotherUser): true
        case .misconfigured, .throttled, .unavailable: false
        }
    }
}
