// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Foundation
internal import GRDB

/// Grants: a sign-in becomes a credential, whatever comes of it is logged, and its token leaves the queue.
extension SettlementTransaction {
    mutating func settle(_ work: ClaimedGrant, _ verdict: GrantVerdict) throws -> Settled {
        switch verdict {
        case .accepted(let grant, let credential):
            guard let client = directory.clients[credential.clientID] else {
                return try settle(work, .unknownClient(lookedAt: nil))
            }
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            let outcome = try apply(grant, credential.userID, of: client)
            return try log(work, outcome)
        case .inFuture(let due, let lookedAt):
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            if try hasWaitedLongEnough(work, lookedAt) { return try log(work, .inFuture) }
            return try postpone(.grant, work.id, work.claim, until: min(due, now.advanced(by: SettlementRules.waitingGrantRetry)))
        case .rejected(let reason):
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            return try log(work, .rejected, reason)
        case .unknownClient(let lookedAt):
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            if try hasWaitedLongEnough(work, lookedAt) { return try log(work, .rejected, .unknownClientExpired) }
            return try postpone(.grant, work.id, work.claim, until: now.advanced(by: SettlementRules.waitingGrantRetry))
        }
    }

    private mutating func apply(_ grant: Grant, _ userID: String, of client: ClientDirectory.Client) throws -> GrantLogOutcome {
        let key = RegisterCache.Key(app: client.app, userID: userID)
        let id = CredentialID(clientID: client.clientID, userID: userID)
        var isNewToken = false
        let outcome = try withUser(key, .grant, at: grant.grantedAt) { [rules, now] user -> GrantLogOutcome in
            let registersBefore = user.registers
            let before = user[client.id]
            var row = before ?? CredentialRow()
            user.registers.apply(grant)
            row.credential.apply(grant)
            if row.credential.token?.key != before?.credential.token?.key {
                isNewToken = true
                // What Apple said of another token says nothing of when to ask about this one. Of the same one, told with another sign-in,
                // it does: whoever asks about it has lost the claim, and may still be answered until its lease ends.
                var lastAnswer: Timestamp?
                if row.credential.token?.key.fingerprint != before?.credential.token?.key.fingerprint {
                    row.answeredAt = nil
                    row.answer = nil
                } else if row.claimedBy != nil, row.pending == nil, isGreater(row.dueAt, than: now) {
                    row.answeredAt = latest(row.answeredAt, now)
                    lastAnswer = row.dueAt
                }
                lastAnswer = latest(lastAnswer, row.answeredAt)
                let isImport = rules.policy.isImport(grantedAt: grant.grantedAt, now: now)
                row.firstCheck = row.answeredAt != nil ? nil : isImport ? .imported : .signIn
                row.dueAt = rules.policy.firstCheck(grantedAt: grant.grantedAt, answeredAt: lastAnswer, of: id, now: now)
                row.failures = 0
                row.isUnverified = false
                row.pending = nil
                row.attempts = 0
                row.claimedBy = nil
            }
            user.set(row, at: client.id)
            if row.credential != before?.credential || user.registers != registersBefore { return .applied }
            let isSame =
                row.credential.grantedAt == grant.grantedAt && (grant.token == nil || grant.token?.key == row.credential.token?.key)
            return isSame ? .duplicate : .stale
        }
        if isNewToken { replenished.insert(client.app.name) }
        return outcome
    }

    /// The wait counts from the first look under a clock that can be trusted, so that no step of a clock shortens it.
    private func hasWaitedLongEnough(_ work: ClaimedGrant, _ lookedAt: Timestamp?) throws -> Bool {
        guard let lookedAt else { return false }
        let since = try Int64.fetchOne(
            db.cachedStatement(
                sql: "UPDATE grant_queue SET waits_since = MIN(COALESCE(waits_since, ?1), ?1) WHERE id = ?2 RETURNING waits_since"
            ),
            arguments: [lookedAt.milliseconds, work.id]
        )
        return Timestamp(milliseconds: since ?? lookedAt.milliseconds).duration(to: lookedAt) > SettlementRules.longestGrantWait
    }

    private mutating func log(_ work: ClaimedGrant, _ outcome: GrantLogOutcome, _ reason: GrantRejection? = nil) throws -> Settled {
        // From the row itself: what the backend wrote may not be text that Swift can hold.
        try db.execute(
            cached: """
                INSERT INTO grant_log (client_id, user_id, granted_at, settled_at, outcome, reason)
                SELECT client_id, user_id, granted_at, ?, ?, ? FROM grant_queue WHERE id = ?
                """,
            [now.milliseconds, outcome.rawValue, reason?.rawValue, work.id]
        )
        try remove(.grant, work.id)
        // What could not be read may have been a token.
        if work.content.map({ $0.refreshToken != nil }) ?? true { erasedToken = true }
        return .grant(outcome, reason)
    }
}
