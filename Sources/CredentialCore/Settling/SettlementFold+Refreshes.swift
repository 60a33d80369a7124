// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Refreshes: a 200 is a fact, a rejection has to wait until it is believed, and every answer moves the next check.
extension SettlementFold {
    mutating func settle(_ work: DueCredential, _ verdict: RefreshVerdict) -> Settled {
        guard let app = apps[work.id.clientID] else { return .superseded }
        if verdict.answeredAt != nil { changes.checks.answered += 1 } else { changes.checks.failed += 1 }
        let id = AppUserID(app: app, userID: work.id.userID)
        guard let known = find(work, of: id) else { return .superseded }
        hear(work.clientAnswer, of: work.id.clientID)
        // A 200 that names no user also ends the blame of the client.
        if case .unnamed(let requestedAt, _) = verdict { accepted(work.id, of: app, at: requestedAt) }
        let verdict = verdict.judged(of: known.credential)
        let wait = judge(verdict, of: work, in: app, known)
        withUser(id, .refresh, at: verdict.factTime ?? now) { [rules, now] user in
            // Reads the record again, because the breaker's judgement may have dropped the pending rejection.
            guard var record = user[work.id.clientID] else { return }
            if work.purpose == .canary {
                record.takeOutOfTurn(verdict, from: work.teamID, under: rules.policy, at: now)
            } else {
                record.take(verdict, of: work.id, from: work.teamID, wait: wait ?? .forgotten, under: user.registers, rules, at: now)
            }
            user[work.id.clientID] = record
        }
        return wait == .forgotten || (work.purpose == .canary && verdict.rejection != nil) ? .held : .refreshed
    }

    /// Lets the breaker judge an answer. Nil if there is no rejection, or nothing new in it.
    private mutating func judge(
        _ verdict: RefreshVerdict,
        of work: DueCredential,
        in app: String,
        _ known: CredentialRecord
    ) -> CredentialRecord.RejectionWait? {
        // A repeated rejection of a token that is rejected already brings nothing new.
        guard let finding = verdict.finding, !(known.credential.isTokenRejected && finding == .rejected) else { return nil }
        let wasAccepted = known.credential.verifiedAt != nil
        // Apple may reject a good token that it accepted from another team, so such a rejection does not wait.
        if finding == .rejected, wasAccepted, !known.credential.wasTokenAccepted(by: work.teamID) { return .forgotten }
        let clientID = work.id.clientID
        let isRepeated =
            verdict.rejection.map {
                known.pending?.isRepeated(by: $0, provedAt: basis.provedAt[clientID], under: rules.policy) ?? false
            } ?? false
        // Tokens that Apple has never accepted say nothing of how Apple answers. There may be many, and long dead.
        let subject = RejectionBreaker.Subject(
            work.id,
            isCanary: wasAccepted && rules.isCanary(work.id.userID, of: app),
            isCheck: work.purpose == .check && !isRepeated && wasAccepted,
            rejectedAt: wasAccepted && known.answer == .rejected ? known.answeredAt : nil
        )
        let admission = withBreaker(of: app) { [rules, now] in $0.judge(finding, of: subject, under: rules.breaker, at: now) }
        switch finding {
        case .valid:
            if let requestedAt = verdict.requestedAt { hear(.accepted(at: requestedAt), of: clientID) }
            if wasAccepted {
                basis.provedAt[clientID] = latest(basis.provedAt[clientID], verdict.requestedAt)
                changes.provedAt[clientID] = latest(changes.provedAt[clientID], verdict.requestedAt)
            }
            return nil
        case .blamed: return nil
        case .rejected:
            guard var rejection = verdict.rejection, admission != .held else { return .forgotten }
            if case .confirmed(let at) = admission { rejection.answeredAt = at } else if isRepeated { return .goesOn }
            return .begins(rejection)
        }
    }

    /// Admits a rejection that has waited, if it is still pending, no newer sign-in waits, and the breaker does not hold it.
    mutating func admit(_ rejection: PendingRejection, of work: DueCredential) -> Settled {
        guard let app = apps[work.id.clientID] else { return .superseded }
        let id = AppUserID(app: app, userID: work.id.userID)
        guard let known = find(work, of: id) else { return .superseded }
        // Grants go first here too. A user who has signed in again must not see the end of an older token.
        let hasSignedInAgain = waitingGrants(of: id).contains { $0.clientID == work.id.clientID && $0.grantedAt > work.token.grantedAt }
        // A breaker that opened has dropped the pending rejection, even if it closed again since.
        let isHeld = withBreaker(of: app) { $0.holds(work.id.clientID) }
        // Under a clock that is off, a 200 may turn out to be later.
        let isDisproved = isGreater(known.credential.verifiedAt, than: rejection.requestedAt)
        let isBelieved = known.pending == rejection && !hasSignedInAgain && !isHeld && !isDisproved
        let (endsSignIn, isTokenBack) = withUser(id, .refresh, at: rejection.requestedAt) { [rules, now] user -> (Bool, Bool) in
            var record = known
            defer { user[work.id.clientID] = record }
            guard isBelieved else {
                record.waitForRepetition(under: rules.policy)
                return (false, false)
            }
            let isTokenBack = record.believe(rejection, of: work.id, under: rules.policy, at: now)
            return (record.credential.standing(under: user.registers).reason == .tokenRejected, isTokenBack)
        }
        if isTokenBack { changes.replenished.insert(app) }
        if endsSignIn {
            let (granted, rejected) = (work.token.grantedAt, rejection.requestedAt)
            changes.admitted.append(AdmittedRejection(app: app, credential: work.id, tokenGrantedAt: granted, rejectedAt: rejected))
        }
        return isBelieved ? .refreshed : .postponed
    }

    /// The credential's record, if the claim still holds it and the token is still the one that siwatch asked about.
    private func find(_ work: DueCredential, of id: AppUserID) -> CredentialRecord? {
        guard let record = basis.users[id]?[work.id.clientID], record.credential.token?.key == work.token else { return nil }
        // No claim holds a canary. Its answer is true whichever process holds the credential.
        if work.purpose == .canary { return record }
        return record.claimedBy == work.claim.owner && record.attempts == work.claim.attempts ? record : nil
    }
}

extension RefreshVerdict {
    fileprivate var finding: RejectionBreaker.Finding? {
        switch self {
        case .valid: .valid
        case .rejected: .rejected
        case .failed(.misconfigured, _, _): .blamed
        case .unnamed, .anotherUser, .unclear, .failed(.throttled, _, _), .failed(.unavailable, _, _): nil
        }
    }

    /// When the verdict's fact became true; nil if it is no fact.
    fileprivate var factTime: Timestamp? { if case .valid(let requestedAt, _) = self { requestedAt } else { nil } }
}
