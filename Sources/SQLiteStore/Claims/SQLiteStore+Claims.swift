// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import GRDB
import NIOConcurrencyHelpers

extension SQLiteStore {
    package func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant] {
        try await claim(from: .grant, where: "authorization_code IS NULL", upTo: limit, at: now) { [owner] db, ids in
            let take = try PreparedStatement(
                """
                UPDATE grant_queue
                   SET due_at = ?, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?
                 WHERE id = ?
                RETURNING attempts, granted_at, CAST(client_id AS BLOB), CAST(user_id AS BLOB), CAST(refresh_token AS BLOB),
                          CAST(email AS BLOB), email_is_private, token_sealed
                """,
                in: db
            )
            return try ids.compactMap { id in
                try take.first(now.advanced(by: lease), owner, id) { row in
                    ClaimedGrant(
                        id: id,
                        claim: Claim(owner: owner, attempts: row.int(at: 0)),
                        grantedAt: Timestamp(milliseconds: row.integer(at: 1)),
                        content: ClaimedGrant.Content(row, from: 2)
                    )
                }
            }
        }
    }

    package func claimRevocationRequests(
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration
    ) async throws -> [ClaimedRevocationRequest] {
        let apps = directory.withLockedValue { $0 }.appNames
        return try await claim(from: .revocation, where: Tables.unopened, upTo: limit, at: now) { [owner] db, ids in
            let take = try PreparedStatement(
                """
                UPDATE revocation_queue
                   SET due_at = ?, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?
                 WHERE id = ?
                RETURNING attempts, requested_at, CAST(client_id AS BLOB), CAST(user_id AS BLOB), confirmed_at, effective_at
                """,
                in: db
            )
            return try ids.compactMap { id in
                try take.first(now.advanced(by: lease), owner, id) { row in
                    ClaimedRevocationRequest(row, from: 1, id: id, claim: Claim(owner: owner, attempts: row.int(at: 0)), apps: apps)
                }
            }
        }
    }

    private func claim<Work: Sendable>(
        from queue: Queue,
        where lane: String,
        upTo limit: Int,
        at now: Timestamp,
        take: @escaping @Sendable (Database, [Int64]) throws -> [Work]
    ) async throws -> [Work] {
        let table = queue.rawValue
        let furthest = now.advanced(by: queue.longestDelay)
        let isDue = try await query { connection in
            try connection.fetchOne(
                """
                SELECT EXISTS (SELECT 1 FROM \(table) WHERE \(lane) AND due_at <= $1)
                    OR EXISTS (SELECT 1 FROM \(table) WHERE \(lane) AND due_at > $2)
                """,
                now,
                furthest
            )?.bool(at: 0) ?? false
        }
        guard isDue, limit > 0 else { return [] }
        return try await write { db in
            try SQLiteConnection(db).execute("UPDATE \(table) SET due_at = $1 WHERE \(lane) AND due_at > $2", now, furthest)
            var rows: [(id: Int64, attempts: Int)] = []
            for due in Self.turns(of: queue, at: now) where rows.count < limit {
                try PreparedStatement(
                    "SELECT id, attempts FROM \(table) WHERE \(lane) AND due_at BETWEEN ? AND ? ORDER BY due_at, id LIMIT ?",
                    in: db
                ).forEachRow(due.from, due.to, limit - rows.count) { row in
                    rows.append((row.integer(at: 0), Int(row.integer(at: 1))))
                }
            }
            return try take(db, Claim.claimable(rows, suspects: true))
        }
    }

    /// Due times in the order in which siwatch claims their rows.
    ///
    /// A sign-in that was claimed before goes before all new ones, whose due time is 0. The reason: an event waits six minutes for it, and
    /// an import may take longer. A postponed sign-in also goes before them, once in six hours.
    private static func turns(of queue: Queue, at now: Timestamp) -> [(from: Timestamp, to: Timestamp)] {
        switch queue {
        case .grant: [(from: Timestamp(milliseconds: 1), to: now), (from: .earliest, to: Timestamp(milliseconds: 0))]
        case .notification, .revocation: [(from: .earliest, to: now)]
        }
    }
}
