// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What becomes of a token's checks: the one place that says when Apple is asked again, and which rejection waits.
///
/// Stores write it a row at a time. Where a statement of theirs does the same to many rows at once, it says whose mirror it is.
extension CredentialRecord {
    /// A sign-in has come.
    ///
    /// - Returns: whether it brought another token to ask about.
    package mutating func take(_ grant: Grant, of id: CredentialID, under policy: RefreshPolicy, at now: Timestamp) -> Bool {
        let before = credential.token?.key
        credential.apply(grant)
        credential.fallBack()
        guard credential.token?.key != before else { return false }
        beginChecks(policy.isImport(grantedAt: grant.grantedAt, now: now) ? .imported : .signIn)
        dueAt = policy.firstCheck(grantedAt: grant.grantedAt, of: id, now: now)
        return true
    }

    /// Another token is in use. What Apple said of the one before says nothing of when to ask about this one.
    private mutating func beginChecks(_ first: FirstCheck) {
        answeredAt = nil
        answer = nil
        firstCheck = first
        failures = 0
        isUnverified = false
        pending = nil
        release()
    }

    /// Apple has just issued the token that has been taken: that is its first check.
    ///
    /// - Parameter teamID: the team that asked.
    package mutating func takeFirst(
        _ answer: RefreshVerdict,
        of id: CredentialID,
        from teamID: String? = nil,
        under policy: RefreshPolicy
    ) {
        hear(answer, from: teamID)
        answeredAt = answer.answeredAt
        firstCheck = nil
        dueAt = nextCheck(after: answer, of: id, policy)
    }

    /// Apple was asked at a check, and the claim ends.
    ///
    /// - Parameters:
    ///   - teamID: the team that asked.
    ///   - wait: what becomes of a rejection.
    package mutating func take(
        _ verdict: RefreshVerdict,
        of id: CredentialID,
        from teamID: String? = nil,
        wait: RejectionWait,
        under user: AppUser,
        _ rules: SettlementRules,
        at now: Timestamp
    ) {
        hear(verdict, from: teamID)
        putBackForeignToken(after: verdict)
        release()
        firstCheck = nil
        // An answer from the future is of a clock that has since been set back.
        answeredAt = latest(answeredAt.flatMap { $0 <= now ? $0 : nil }, verdict.answeredAt)
        // What waits counts from an answer.
        if answeredAt == nil { pending = nil }
        failures = verdict.answeredAt == nil ? failures + 1 : 0
        // A rejected token is asked about only if an operator wants it, and until there is an answer.
        let isOver = verdict.answeredAt != nil && credential.tokenToCheck(under: user) == nil
        isUnverified = !isOver && !credential.isTokenRejected && rules.policy.isUnverified(credential, at: now)
        guard !isOver else {
            dueAt = nil
            return
        }
        let next = nextCheck(after: verdict, of: id, rules.policy)
        dueAt = next
        guard let rejection = verdict.rejection else { return }
        switch wait {
        case .forgotten: pending = nil
        case .begins, .goesOn:
            if wait == .begins { pending = rejection }
            dueAt = min(rejection.answeredAt.advanced(by: rules.breaker.settle), next)
        }
    }

    /// What becomes of a rejection that is not a fact yet.
    package enum RejectionWait: Sendable {
        /// The breaker holds it, or another team asked than the one that Apple has accepted the token from: the user is asked about again
        /// at the next check.
        case forgotten
        case begins
        /// Apple has repeated the one that waits, which counts since the first time.
        case goesOn
    }

    /// Apple was asked about a canary beside the schedule, which stays as it is.
    ///
    /// - Parameter teamID: the team that asked.
    package mutating func takeOutOfTurn(
        _ verdict: RefreshVerdict,
        from teamID: String? = nil,
        under policy: RefreshPolicy,
        at now: Timestamp
    ) {
        let hasWaited = pending != nil
        hear(verdict, from: teamID)
        if hasWaited, pending == nil { leaveToNextCheck(policy.interval) }
        isUnverified = isUnverified && policy.isUnverified(credential, at: now)
    }

    /// A rejection that has waited is believed, and the claim ends.
    ///
    /// - Returns: whether the token before is in use again, and is to be asked about.
    package mutating func believe(
        _ rejection: PendingRejection,
        of id: CredentialID,
        under policy: RefreshPolicy,
        at now: Timestamp
    ) -> Bool {
        waitForRepetition(under: policy)
        pending = nil
        guard let token = credential.token?.key else { return false }
        credential.apply(RefreshAnswer(.rejected, token: token, requestedAt: rejection.requestedAt))
        credential.fallBack()
        if credential.token?.key != token {
            // Apple last said something of it before the other came, and that one's rejection has been repeated an interval later.
            beginChecks(.signIn)
            dueAt = policy.firstCheck(grantedAt: now, of: id, now: now)
            return true
        }
        if credential.isTokenRejected {
            dueAt = nil
            isUnverified = false
        }
        return false
    }

    /// The time of a rejection has come and it cannot be believed: it waits on until the daily check, and the claim ends.
    package mutating func waitForRepetition(under policy: RefreshPolicy) {
        release()
        dueAt = answeredAt?.advanced(by: policy.repetition)
    }

    /// The breaker has opened: whoever's rejection waits is asked about again at the daily check.
    package mutating func forgetRejection(under policy: RefreshPolicy) {
        guard pending != nil else { return }
        pending = nil
        leaveToNextCheck(policy.interval)
    }

    /// An operator wants Apple to be asked out of turn, and what is pending is to be said again.
    ///
    /// - Parameter time: the earlier, the more go behind it.
    package mutating func recheck(at time: Timestamp) {
        dueAt = time
        firstCheck = .signIn
        pending = nil
    }

    /// What cannot be used is not kept, and nobody asks about what is not kept.
    package mutating func eraseUnusableToken(under user: AppUser) {
        credential.eraseUnusableToken(under: user)
        if credential.token?.sealed == nil {
            // Whoever asks about it may still be answered until the lease ends.
            if claimedBy != nil { answeredAt = latest(answeredAt, dueAt) }
            dueAt = nil
            firstCheck = nil
            isUnverified = false
            pending = nil
            if answer == .anotherUser { answer = nil }
        }
        isNeverAccepted = credential.isTokenNeverAccepted(under: user)
    }

    private mutating func hear(_ verdict: RefreshVerdict, from teamID: String?) {
        if case .valid(let requestedAt, _) = verdict, let token = credential.token?.key {
            credential.apply(RefreshAnswer(.valid, token: token, requestedAt: requestedAt, teamID: teamID))
        }
        guard let said = verdict.answer else { return }
        answer = said
        // Whatever else Apple says is a later word than the rejection that waits.
        if said != .rejected { pending = nil }
    }

    /// Apple says that the token is another user's. The one before it watches over this user, from the next check on: Apple may have answered
    /// about it lately.
    private mutating func putBackForeignToken(after verdict: RefreshVerdict) {
        guard case .anotherUser = verdict else { return }
        let foreign = credential.token?.key
        credential.putBackForeignToken()
        if credential.token?.key != foreign { answer = nil }
    }

    private mutating func release() {
        attempts = 0
        claimedBy = nil
    }

    private mutating func leaveToNextCheck(_ interval: Duration) {
        dueAt = latest(dueAt, answeredAt?.advanced(by: interval))
    }

    private func nextCheck(after verdict: RefreshVerdict, of id: CredentialID, _ policy: RefreshPolicy) -> Timestamp {
        switch verdict {
        case .valid(_, let answeredAt), .unnamed(_, let answeredAt), .anotherUser(let answeredAt), .unclear(let answeredAt):
            policy.nextCheck(afterAnswerAt: answeredAt, of: id)
        case .rejected(let rejection, _): policy.nextCheck(afterAnswerAt: rejection.answeredAt, of: id)
        case .failed(_, let time, let retryAfter):
            policy.retry(afterFailures: failures, at: time, retryAfter: retryAfter, of: id)
        }
    }
}
