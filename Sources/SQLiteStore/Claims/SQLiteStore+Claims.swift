// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables

extension SQLiteStore {
    package func claim<Choice: Sendable, Work: Sendable>(
        choosing choose: @escaping @Sendable (SQLiteConnection) throws -> Choice?,
        taking take: @escaping @Sendable (SQLiteConnection, Choice) throws -> [Work]
    ) async throws -> [Work] {
        guard let choice = try await query(choose) else { return [] }
        return try await transaction { connection in try take(connection, choice) }
    }

    package func claimRows<Work: Sendable>(
        of lane: QueueLane,
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        suspects: Bool,
        _ read: @escaping @Sendable (PreparedStatement.Columns) -> Work
    ) async throws -> [Work] {
        let (table, condition) = (lane.queue.rawValue, lane.condition)
        let furthest = now.advanced(by: lane.queue.longestDelay)
        return try await claim { connection -> Bool? in
            let isDue =
                try connection.fetchOne(
                    """
                    SELECT EXISTS (SELECT 1 FROM \(sql: table) WHERE \(sql: condition) AND due_at <= \(now))
                        OR EXISTS (SELECT 1 FROM \(sql: table) WHERE \(sql: condition) AND due_at > \(furthest))
                    """
                )?.bool(at: 0) ?? false
            return isDue && limit > 0 ? true : nil
        } taking: { [owner] connection, _ in
            try connection.execute("UPDATE \(sql: table) SET due_at = \(now) WHERE \(sql: condition) AND due_at > \(furthest)")
            var rows: [(id: Int64, attempts: Int)] = []
            for due in Self.turns(of: lane.queue, at: now) where rows.count < limit {
                try PreparedStatement(
                    "SELECT id, attempts FROM \(table) WHERE \(condition) AND due_at BETWEEN ? AND ? ORDER BY due_at, id LIMIT ?",
                    in: connection.db
                ).forEachRow(due.from, due.to, limit - rows.count) { row in
                    rows.append((row.integer(at: 0), Int(row.integer(at: 1))))
                }
            }
            let take = try PreparedStatement(
                """
                UPDATE \(table) SET due_at = ?, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ? WHERE id = ?
                RETURNING id, attempts, due_at, \(lane.returning)
                """,
                in: connection.db
            )
            return try Claim.claimable(rows, suspects: suspects).compactMap { id in
                try take.first(now.advanced(by: lease), owner, id, read: read)
            }
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

extension SQLiteConnection {
    package func begin(_ search: CheckSearch, at now: Timestamp) -> Timestamp { .earliest }

    package func end(_ search: CheckSearch, at now: Timestamp, from first: Timestamp?, upTo place: Timestamp) {}
}
