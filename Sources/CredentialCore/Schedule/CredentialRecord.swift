// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One user at one client, as a store keeps it: the registers and the schedule of the token's checks.
package struct CredentialRecord: Sendable, Equatable {
    package var credential = Credential()
    /// When Apple last answered about the token, by our clock.
    package var answeredAt: Timestamp?
    package var answer: TokenAnswer?
    package var pending: PendingRejection?
    /// When the next check or try comes, or a claim or the settle time ends; nil if nothing is left to ask.
    package var dueAt: Timestamp?
    package var failures = 0
    /// The reason for the token's first check; nil once siwatch has made that check.
    package var firstCheck: FirstCheck?
    /// Whether Apple had not confirmed the token for three intervals when it was last asked.
    package var isUnverified = false
    /// Whether Apple rejects the token and has never accepted it. It follows from the registers, and is kept for lists and counts.
    package var isNeverAccepted = false
    package var attempts = 0
    package var claimedBy: String?
    /// The import that alone has told of the credential; nil once siwatch has learnt anything of it from elsewhere.
    package var importedBy: Int64?

    package enum FirstCheck: Int, Sendable {
        /// A sign-in that has just happened, or an operator who waits for the answer. The check goes before a backlog.
        case signIn = 0
        case imported = 1
    }

    package init(importedBy importID: Int64? = nil) {
        importedBy = importID
    }
}

/// The schedule of a token's checks. Only this file decides when Apple is asked again and which rejection waits.
///
/// Stores write its result a row at a time. A store's statement that does the same to many rows names the function that it copies.
extension CredentialRecord {
    /// Takes a sign-in, and says whether it brought another token to ask about.
    package mutating func take(_ grant: Grant, of id: CredentialID, under policy: RefreshPolicy, at now: Timestamp) -> Bool {
        let before = credential.token?.key
        credential.apply(grant)
        credential.fallBack()
        guard credential.token?.key != before else { return false }
        beginChecks(policy.isImport(grantedAt: grant.grantedAt, now: now) ? .imported : .signIn)
        dueAt = policy.firstCheck(grantedAt: grant.grantedAt, of: id, now: now)
        return true
    }

    /// Starts the checks of another token. Apple's answer about the token before does not schedule this one.
    private mutating func beginChecks(_ first: FirstCheck) {
        answeredAt = nil
        answer = nil
        firstCheck = first
        failures = 0
        isUnverified = false
        pending = nil
        release()
    }

    /// Takes Apple's issue of the current token as its first check.
    mutating func takeFirst(_ answer: RefreshVerdict, of id: CredentialID, from teamID: String? = nil, under policy: RefreshPolicy) {
        hear(answer, from: teamID)
        answeredAt = answer.answeredAt
        firstCheck = nil
        dueAt = nextCheck(after: answer, of: id, policy)
    }

    /// Takes the answer to a check and ends the claim.
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
        // An answer in the future came from a clock that has since been set back.
        answeredAt = latest(answeredAt.flatMap { $0 <= now ? $0 : nil }, verdict.answeredAt)
        // The wait of a pending rejection counts from an answer.
        if answeredAt == nil { pending = nil }
        failures = verdict.answeredAt == nil ? failures + 1 : 0
        // siwatch asks about a rejected token only for an operator, and only until there is an answer.
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
            if case .begins(let first) = wait { pending = first }
            dueAt = min(rejection.answeredAt.advanced(by: rules.breaker.settle), next)
        }
    }

    /// What happens to a rejection that is not a fact yet.
    package enum RejectionWait: Sendable, Equatable {
        /// The breaker holds it, or another team asked than the one from which Apple has accepted the token. The next check asks again.
        case forgotten
        case begins(PendingRejection)
        /// Apple has repeated the pending rejection, which keeps its first time.
        case goesOn
    }

    /// Takes the answer about a canary beside its schedule, which stays.
    mutating func takeOutOfTurn(_ verdict: RefreshVerdict, from teamID: String? = nil, under policy: RefreshPolicy, at now: Timestamp) {
        let hasWaited = pending != nil
        hear(verdict, from: teamID)
        if hasWaited, pending == nil { leaveToNextCheck(policy.interval) }
        isUnverified = isUnverified && policy.isUnverified(credential, at: now)
    }

    /// Believes a rejection that has waited, and ends the claim. Says whether the former token is in use again and has to be asked about.
    mutating func believe(_ rejection: PendingRejection, of id: CredentialID, under policy: RefreshPolicy, at now: Timestamp) -> Bool {
        waitForRepetition(under: policy)
        pending = nil
        guard let token = credential.token?.key else { return false }
        credential.apply(RefreshAnswer(.rejected, token: token, requestedAt: rejection.requestedAt))
        credential.fallBack()
        if credential.token?.key != token {
            // Apple's last answer about the former token came before the other token, whose rejection was repeated an interval later.
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

    /// Lets a rejection that cannot be believed now wait until the daily check, and ends the claim.
    mutating func waitForRepetition(under policy: RefreshPolicy) {
        release()
        dueAt = answeredAt?.advanced(by: policy.repetition)
    }

    /// Drops the pending rejection until the daily check, because the breaker has opened.
    package mutating func forgetRejection(under policy: RefreshPolicy) {
        guard pending != nil else { return }
        pending = nil
        leaveToNextCheck(policy.interval)
    }

    /// An operator asked for a recheck: ask Apple at `time`, and drop the pending rejection.
    package mutating func recheck(at time: Timestamp) {
        dueAt = time
        firstCheck = .signIn
        pending = nil
    }

    /// Erases a token that cannot be used, and ends its checks.
    package mutating func eraseUnusableToken(under user: AppUser) {
        credential.eraseUnusableToken(under: user)
        if credential.token?.sealed == nil {
            // A process that asks about the token may get an answer until the lease ends.
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
        // Any other answer is a later word than the pending rejection.
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
