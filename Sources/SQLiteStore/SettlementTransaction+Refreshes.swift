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
        return try withUser(key, .refresh, at: verdict.fact?.requestedAt ?? now) { user in
            guard var row = user.rows[client.id], row.claimedBy == work.claim.owner, row.attempts == work.claim.attempts,
                row.credential.token?.key == work.token
            else { return .superseded }
            if let fact = verdict.fact { row.credential.apply(fact) }
            row.answeredAt = latest(row.answeredAt, verdict.answeredAt)
            row.failures = verdict.answeredAt == nil ? row.failures + 1 : 0
            row.dueAt = verdict.nextCheck
            row.attempts = 0
            row.claimedBy = nil
            user.rows[client.id] = row
            return .refreshed
        }
    }
}
