// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Foundation
internal import GRDB

/// Refreshes: a 200 is a fact, a rejection has to wait until it is believed, every answer moves the next check.
extension SettlementTransaction {
    mutating func settle(_ work: DueCredential, _ verdict: RefreshVerdict) throws -> Settled {
        guard let client = directory.clients[work.id.clientID] else { return .superseded }
        let key = RegisterCache.Key(app: client.app, userID: work.id.userID)
        var fact = verdict.fact
        if verdict.answeredAt != nil { checks.answered += 1 } else { checks.failed += 1 }
        // Grants go first here too: who has signed in again is not told of the end of an older token.
        if fact?.verdict == .rejected, try waitingGrants.contains(work.id, newerThan: work.token.grantedAt, at: now) { fact = nil }
        guard let found = try find(work, in: key, client) else { return .superseded }
        // Whoever asks about a token that was rejected before learns nothing from hearing it again.
        let isNews = !(found.credential.isTokenRejected && verdict.finding == .rejected)
        let isRepeated = try verdict.rejection.map { try repeats($0, what: found.pending, client) } ?? false
        var admission = RejectionBreaker.Admission.held
        if let finding = verdict.finding, isNews {
            let subject = RejectionBreaker.Subject(
                work.id,
                isCanary: rules.isCanary(work.id.userID, of: client.app.name),
                isCheck: work.purpose == .check && !isRepeated
            )
            admission = try breakers.judge(finding, of: subject, in: client.app)
            if finding == .valid, let fact { accepted[client.id] = latest(accepted[client.id], fact.requestedAt) }
        }
        return try withUser(key, .refresh, at: fact?.requestedAt ?? now) { [fact, rules, now] user in
            guard var row = user[client.id] else { return .superseded }
            if let fact { row.credential.apply(fact) }
            if let answer = verdict.answer { row.answer = answer }
            // Whatever else Apple says is a later word than the rejection that waits.
            let isOtherAnswer = verdict.answeredAt != nil && verdict.rejection == nil
            if work.purpose == .canary {
                if isOtherAnswer, row.pending != nil {
                    row.pending = nil
                    row.dueAt = latest(row.dueAt, row.answeredAt?.advanced(by: rules.policy.interval))
                }
                row.isUnverified = row.isUnverified && rules.policy.isUnverified(row.credential, at: now)
                user.set(row, at: client.id)
                return verdict.rejection == nil ? .refreshed : .held
            }
            if isOtherAnswer { row.pending = nil }
            // An answer from the future is of a clock that has since been set back.
            row.answeredAt = latest(row.answeredAt.flatMap { $0 <= now ? $0 : nil }, verdict.answeredAt)
            row.failures = verdict.answeredAt == nil ? row.failures + 1 : 0
            row.firstCheck = nil
            // A rejected token is asked about only if an operator wants it, and until there is an answer.
            let isOver = verdict.answeredAt != nil && row.credential.tokenToCheck(under: user.registers) == nil
            row.dueAt = isOver ? nil : verdict.nextCheck
            if let rejection = verdict.rejection, !isOver {
                if admission == .held {
                    row.pending = nil
                } else {
                    // One that is repeated waits again, and counts since the first time.
                    if !isRepeated { row.pending = rejection }
                    row.dueAt = min(rejection.answeredAt.advanced(by: rules.breaker.settle), verdict.nextCheck)
                }
            }
            row.isUnverified =
                !isOver && !row.credential.isTokenRejected && rules.policy.isUnverified(row.credential, at: now)
            row.attempts = 0
            row.claimedBy = nil
            user.set(row, at: client.id)
            return verdict.rejection != nil && isNews && admission == .held ? .held : .refreshed
        }
    }

    /// A rejection has waited long enough. It is believed if it still waits and the breaker is closed.
    mutating func admit(_ rejection: PendingRejection, of work: DueCredential) throws -> Settled {
        guard let client = directory.clients[work.id.clientID] else { return .superseded }
        let key = RegisterCache.Key(app: client.app, userID: work.id.userID)
        guard let row = try find(work, in: key, client) else { return .superseded }
        let hasSignedInAgain = try waitingGrants.contains(work.id, newerThan: work.token.grantedAt, at: now)
        let isOpen = try breakers.isOrWasOpen(client.app)
        let isAdmitted = row.pending == rejection && !hasSignedInAgain && !isOpen
        let fact = RefreshAnswer(.rejected, token: work.token, requestedAt: rejection.requestedAt)
        var endsSignIn = false
        let settled = try withUser(key, .refresh, at: rejection.requestedAt) { [rules] user -> Settled in
            guard var row = user[client.id] else { return .superseded }
            row.attempts = 0
            row.claimedBy = nil
            row.dueAt = row.answeredAt?.advanced(by: rules.policy.repetition)
            if isAdmitted {
                row.pending = nil
                row.credential.apply(fact)
                endsSignIn = row.credential.standing(under: user.registers).reason == .tokenRejected
                if row.credential.isTokenRejected {
                    row.dueAt = nil
                    row.isUnverified = false
                }
            }
            user.set(row, at: client.id)
            return isAdmitted ? .refreshed : .postponed
        }
        if endsSignIn { try noteAdmission(of: work, rejection, client) }
        return settled
    }

    /// The row of the credential, if the claim still holds it and the token is the one that was asked about.
    private mutating func find(
        _ work: DueCredential,
        in key: RegisterCache.Key,
        _ client: ClientDirectory.Client
    ) throws -> CredentialRow? {
        let row = try row(of: key, client)
        guard let row, row.credential.token?.key == work.token else { return nil }
        // Nothing holds a canary: what it says is true whoever else asks.
        if work.purpose == .canary { return row }
        return row.claimedBy == work.claim.owner && row.attempts == work.claim.attempts ? row : nil
    }

    /// Whether Apple says again what waits, and has accepted the client after the first time. A time without any 200 may have been one
    /// incident, or a mistake of ours, and its second rejection says no more than its first.
    ///
    /// One that waits from the future is of a clock that has since been set back, and is replaced. By Apple's clock an interval has to
    /// lie between the two: ours may have leapt over it.
    private func repeats(_ rejection: PendingRejection, what pending: PendingRejection?, _ client: ClientDirectory.Client) throws -> Bool {
        guard let pending, pending.keyID == rejection.keyID, pending.answeredAt <= rejection.answeredAt,
            pending.requestedAt.advanced(by: rules.policy.interval) <= rejection.requestedAt
        else { return false }
        let stored = try Int64.fetchOne(db.cachedStatement(sql: "SELECT valid_at FROM client WHERE id = ?"), arguments: [client.id])
        let validAt = latest(accepted[client.id], stored.map(Timestamp.init(milliseconds:)))
        // Both by Apple's clock. A request that was under way then may have been answered before whatever went wrong.
        let timeout = rules.policy.timeout
        return validAt.map { $0 > pending.requestedAt.advanced(by: timeout) && $0 <= rejection.requestedAt.advanced(by: timeout) } ?? false
    }

    /// Remembers it until a notification had time to come.
    private func noteAdmission(of work: DueCredential, _ rejection: PendingRejection, _ client: ClientDirectory.Client) throws {
        try db.execute(
            cached: """
                INSERT INTO admitted_rejection (app, client, user_id, granted_at, rejected_at, admitted_at) VALUES (?, ?, ?, ?, ?, ?)
                """,
            [
                client.app.id, client.id, work.id.userID, work.token.grantedAt.milliseconds, rejection.requestedAt.milliseconds,
                now.milliseconds,
            ]
        )
    }
}
