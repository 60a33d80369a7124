// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Foundation
internal import GRDB

/// Refreshes: an admitted answer is a fact, every answer moves the next check.
extension SettlementTransaction {
    mutating func settle(_ work: DueCredential, _ verdict: RefreshVerdict) throws -> Settled {
        guard let client = directory.clients[work.id.clientID] else { return .superseded }
        let key = RegisterCache.Key(app: client.app, userID: work.id.userID)
        var fact = verdict.fact
        if verdict.answeredAt != nil { checks.answered += 1 } else { checks.failed += 1 }
        // Grants go first here too: who has signed in again is not told of the end of an older token.
        if fact?.verdict == .rejected, grantsWait, try hasWaitingGrant(of: work.id, newerThan: work.token.grantedAt) { fact = nil }
        return try withUser(key, .refresh, at: fact?.requestedAt ?? now) { [fact, rules, now] user in
            guard var row = user[client.id], row.claimedBy == work.claim.owner, row.attempts == work.claim.attempts,
                row.credential.token?.key == work.token
            else { return .superseded }
            if let fact { row.credential.apply(fact) }
            row.answeredAt = latest(row.answeredAt, verdict.answeredAt)
            row.failures = verdict.answeredAt == nil ? row.failures + 1 : 0
            // A rejected token is asked about only if an operator wants it, and until there is an answer.
            let isOver = verdict.answeredAt != nil && row.credential.tokenToCheck(under: user.registers) == nil
            row.dueAt = isOver ? nil : verdict.nextCheck
            row.isUnverified = !isOver && rules.policy.isUnverified(row.credential, at: now)
            row.attempts = 0
            row.claimedBy = nil
            user.set(row, at: client.id)
            return .refreshed
        }
    }

    private func hasWaitingGrant(of credential: CredentialID, newerThan time: Timestamp) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: "SELECT EXISTS (SELECT 1 FROM grant_queue WHERE user_id = ? AND granted_at > ? AND client_id = ?)"
            ),
            arguments: [credential.userID, time.milliseconds, credential.clientID]
        ) ?? false
    }
}
