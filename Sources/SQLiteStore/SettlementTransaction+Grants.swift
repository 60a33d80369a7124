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
                return try settle(work, .unknownClient)
            }
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            let outcome = try apply(grant, credential.userID, of: client)
            return try log(work, outcome)
        case .inFuture:
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            return try log(work, .inFuture)
        case .rejected(let reason):
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            return try log(work, .rejected, reason)
        case .unknownClient:
            if try isUnknownForTooLong(work) { return try settle(work, .rejected(.unknownClientExpired)) }
            return try postpone(.grant, work.id, work.claim, until: now.advanced(by: SettlementRules.unknownClientRetry))
        }
    }

    private mutating func apply(_ grant: Grant, _ userID: String, of client: ClientDirectory.Client) throws -> GrantLogOutcome {
        let key = RegisterCache.Key(app: client.app, userID: userID)
        let id = CredentialID(clientID: client.clientID, userID: userID)
        return try withUser(key, .grant, at: grant.grantedAt) { [rules, now] user in
            let registersBefore = user.registers
            let before = user[client.id]
            var row = before ?? CredentialRow()
            user.registers.apply(grant)
            row.credential.apply(grant)
            if row.credential.token?.key != before?.credential.token?.key {
                // A new token: whoever asks about the old one has lost the claim, and may still be answered until its lease ends.
                let answeredAt = row.claimedBy == nil ? row.answeredAt : latest(row.answeredAt, row.dueAt)
                row.dueAt = rules.policy.firstCheck(grantedAt: grant.grantedAt, answeredAt: answeredAt, of: id, now: now)
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
    }

    private func isUnknownForTooLong(_ work: ClaimedGrant) throws -> Bool {
        guard let clientID = work.content?.credential.clientID else { return false }
        let firstSeen = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    INSERT INTO unknown_client (client_id, first_seen_at) VALUES (?, ?)
                        ON CONFLICT (client_id) DO UPDATE SET first_seen_at = MIN(first_seen_at, excluded.first_seen_at)
                    RETURNING first_seen_at
                    """
            ),
            arguments: [clientID, now.milliseconds]
        ).map(Timestamp.init(milliseconds:))
        // A backlog that is older than its client's first sight counts from there, a new row from its own time.
        let since = max(firstSeen ?? now, min(work.grantedAt, now))
        return since.duration(to: now) > SettlementRules.unknownClientExpiry
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
