// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Grants: each sign-in becomes a credential, and its outcome is logged.
extension SettlementFold {
    mutating func settle(_ work: ClaimedGrant, _ verdict: GrantVerdict) -> Settled {
        guard basis.heldGrants[work.id] == work.claim else { return .superseded }
        switch verdict {
        case .accepted(let grant, let credential, let lost):
            guard let app = apps[credential.clientID] else { return wait(work, lookedAt: nil, orElse: .rejected, .unknownClientExpired) }
            let id = AppUserID(app: app, userID: credential.userID)
            if let forgotten = forgotten(id, at: grant.grantedAt) {
                return log(work, lost == nil ? .stale : .rejected, lost?.rejection, userID: forgotten.pseudonym)
            }
            let outcome = apply(grant, credential, of: app, toldBy: work.importID)
            return lost == nil ? log(work, outcome) : log(work, .rejected, lost?.rejection)
        case .rejected(let reason):
            return log(work, .rejected, reason)
        case .inFuture(let due, let lookedAt):
            return wait(work, due: due, lookedAt: lookedAt, orElse: .inFuture)
        case .unknownClient(let lookedAt):
            return wait(work, lookedAt: lookedAt, orElse: .rejected, .unknownClientExpired)
        }
    }

    /// - Parameter answer: what Apple said of the token when it issued it to the team; nil if a backend brought the token.
    mutating func apply(
        _ grant: Grant,
        _ credential: CredentialID,
        of app: String,
        toldBy importID: Int64? = nil,
        issued answer: RefreshVerdict? = nil,
        to teamID: String? = nil
    ) -> GrantLogOutcome {
        let id = AppUserID(app: app, userID: credential.userID)
        basis.users[id]?.told(at: credential.clientID, by: importID)
        let known = basis.users[id]?[credential.clientID]?.credential
        // A token that Apple has just issued for a code is always a sign-in.
        if answer == nil, known?.isRetold(grant) ?? false { return .retold }
        let newToken = grant.token.flatMap { known?.recognises($0.key) ?? false ? nil : $0 }
        let (outcome, isNewToken) = withUser(id, .grant, at: grant.grantedAt) { [rules, now] user -> (GrantLogOutcome, Bool) in
            let (registers, known) = (user.registers, user[credential.clientID])
            var record = known ?? CredentialRecord(importedBy: user.registers.isTold ? nil : importID)
            user.apply(grant)
            let isNewToken = record.take(grant, of: credential, under: rules.policy, at: now)
            if let answer, let token = grant.token {
                if record.credential.token?.key == token.key {
                    if isNewToken { record.takeFirst(answer, of: credential, from: teamID, under: rules.policy) }
                } else if let requestedAt = answer.requestedAt {
                    let issue = RefreshAnswer(.valid, token: token.key, requestedAt: requestedAt, teamID: teamID)
                    record.credential.applyIssued(token, issue)
                }
            }
            user[credential.clientID] = record
            // No news: an older token that siwatch now recognises or keeps.
            let isNews = known.map { !record.credential.isSame(butForFormerTokens: $0.credential) } ?? true
            if isNews || user.registers != registers { return (.applied, isNewToken) }
            let isSame =
                record.credential.grantedAt == grant.grantedAt
                && (grant.token == nil || grant.token?.key == record.credential.token?.key)
            return (isSame ? .duplicate : .stale, isNewToken)
        }
        if isNewToken { changes.replenished.insert(app) }
        if let newToken { revoke(newToken, of: credential, in: app, issuedTo: answer == nil ? nil : teamID) }
        return outcome
    }

    /// Lets a sign-in wait, for at most a week from the first look by a clock that can be trusted, so that no step of a clock shortens it.
    private mutating func wait(
        _ work: ClaimedGrant,
        due: Timestamp? = nil,
        lookedAt: Timestamp?,
        orElse outcome: GrantLogOutcome,
        _ reason: GrantRejection? = nil
    ) -> Settled {
        var since = basis.waitsSince[work.id]
        if let lookedAt {
            since = min(since ?? lookedAt, lookedAt)
            if since!.duration(to: lookedAt) > SettlementRules.longestGrantWait { return log(work, outcome, reason) }
        }
        basis.heldGrants[work.id] = nil
        let retry = now.advanced(by: due == nil ? SettlementRules.waitingGrantRetry : SettlementRules.aheadRetry)
        let until = min(due ?? retry, retry)
        // A sign-in whose time has come meanwhile, or comes soon, holds back events about older sign-ins of its user.
        if until > now.advanced(by: SettlementRules.longestWaitForGrant) { postponedGrants[work.id] = due != nil }
        changes.queueRows.append(.postponeGrant(work.id, until: until, waitsSince: since, isAhead: due != nil))
        return .postponed
    }

    private mutating func log(
        _ work: ClaimedGrant,
        _ outcome: GrantLogOutcome,
        _ reason: GrantRejection? = nil,
        userID: String? = nil
    ) -> Settled {
        // An unreadable row may have held a token, and the row of a forgotten user has held a name.
        let hasSecret = userID != nil || work.content.map { $0.refreshToken != nil } ?? true
        return close(GrantLogEntry(id: work.id, outcome: outcome, reason: reason, userID: userID, hasSecret: hasSecret))
    }

    mutating func close(_ entry: GrantLogEntry) -> Settled {
        basis.heldGrants[entry.id] = nil
        goneGrants.insert(entry.id)
        changes.queueRows.append(.logGrant(entry))
        return .grant(entry.outcome, entry.reason)
    }

    /// The waiting sign-ins of a user that can be taken soon, and those that wait long for their time if `includingAhead`.
    func waitingGrants(of id: AppUserID, includingAhead: Bool = false) -> [WaitingGrant] {
        basis.waitingGrants[id]?.filter { grant in
            guard !goneGrants.contains(grant.id) else { return false }
            return switch postponedGrants[grant.id] {
            case nil: !grant.isAhead || includingAhead
            case let isAhead?: isAhead && includingAhead
            }
        } ?? []
    }

    /// Whether work should wait for these sign-ins: while one of them is on its way, even behind an import of millions or in a process that
    /// stood still, and otherwise for six minutes of taking sign-ins.
    func isWorthWaiting(for grants: [WaitingGrant], since arrival: Timestamp) -> Bool {
        guard !grants.isEmpty else { return false }
        if grants.contains(where: \.isOnItsWay) { return true }
        // A time in the future came from a clock that has since been set back.
        guard let start = [arrival, rules.startedAt].filter({ $0 <= now }).max() else { return false }
        return now < start.advanced(by: SettlementRules.longestWaitForGrant)
    }
}
