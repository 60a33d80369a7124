// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables

extension PostgresStore {
    /// Runs a claim. Throws if it has waited too long, because the caller fixed its times before. A late claim's lease would have ended
    /// already, and other replicas' claims would look as if a clock had been set back.
    func runClaim<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) async throws -> Value {
        let start = ContinuousClock.now
        return try await claims.run { [longestClaimWait] connection in
            guard start.duration(to: .now) <= longestClaimWait else { throw StoreError.retry("the claim has waited for too long") }
            return try body(connection)
        }
    }

    package func claim<Choice: Sendable, Work: Sendable>(
        choosing choose: @escaping @Sendable (Connection) throws -> Choice?,
        taking take: @escaping @Sendable (Connection, Choice) throws -> [Work]
    ) async throws -> [Work] {
        try await runClaim { connection in try choose(connection).map { try take(connection, $0) } ?? [] }
    }

    package func claimRows<Work: Sendable>(
        of lane: QueueLane,
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        suspects: Bool,
        _ read: @escaping @Sendable (PostgresRow) -> Work
    ) async throws -> [Work] {
        try await runClaim { [owner] connection in
            try lane.rows(upTo: limit, at: now, lease: lease, owner: owner, suspects: suspects, on: connection).map(read)
        }
    }

    package func claimNotifications(upTo limit: Int, at now: Timestamp, lease: Duration, suspects: Bool) async throws
        -> [ClaimedNotification]
    {
        let (condition, size, columns) = (Tables.anyNotification, Dialect.postgres.payloadSize("payload").text, "payload, received_at")
        let lane = QueueLane(queue: .notification, condition: condition, size: size, returning: columns)
        return try await claimRows(of: lane, upTo: limit, at: now, lease: lease, suspects: suspects) { [owner] row in
            ClaimedNotification(id: row[0], claim: Claim(owner: owner, attempts: row[1]), payload: row[3], receivedAt: row[4])
        }
    }
}

extension Connection {
    package func begin(_ search: CheckSearch, at now: Timestamp) -> Timestamp {
        floors.checks[search, default: ClaimFloor()].begin(at: now) ?? Timestamp(milliseconds: 0)
    }

    package func end(_ search: CheckSearch, at now: Timestamp, from first: Timestamp?, upTo place: Timestamp) {
        floors.checks[search]?.end(at: now, from: first, upTo: place)
    }
}

/// Takes due rows of a queue, and moves their due time to the end of the lease. Skips rows that others hold.
extension QueueLane {
    /// Longest due first: `id`, `attempts`, the due time, and the columns of `returning`. Sign-ins that are due again may come first.
    fileprivate func rows(
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration,
        owner: String,
        suspects: Bool,
        on connection: Connection
    ) throws -> [PostgresRow] {
        guard limit > 0 else { return [] }
        let floor = connection.floors.queues[queue, default: ClaimFloor()].begin(at: now)
        // A sign-in that was claimed before goes before new ones, because an event waits six minutes for it, and an import may take longer.
        // A postponed sign-in also goes first, once in six hours.
        let againFirst = queue == .grant && (floor == nil || connection.floors.beginsWithSignInsDueAgain(at: now))
        // Makes rows due that were postponed by a clock that has since been set back.
        try connection.execute(
            """
            UPDATE \(sql: queue.rawValue) SET due_at = \(now)
             WHERE id = ANY (ARRAY(SELECT id FROM \(sql: queue.rawValue)
                                    WHERE \(sql: condition) AND due_at > \(now.advanced(by: queue.longestDelay))
                                    ORDER BY due_at, id FOR UPDATE SKIP LOCKED))
            """
        )
        let newest = try connection.ask("SELECT COALESCE(pg_sequence_last_value('\(sql: queue.rawValue)_id_seq'), 0)")
        let attempt = "\(connection.dialect.counted("attempts")) + 1"
        // The statement joins nothing: if a vacuum found the queue empty, the server expects one row, and would go through all of it, or
        // through all pairs.
        let rows = try connection.fetchAll(
            """
            WITH \(taken(upTo: limit, at: now, above: floor, againFirst: againFirst, suspects: suspects)),
            claimed AS (
              UPDATE \(sql: queue.rawValue) SET due_at = \(now.advanced(by: lease)), attempts = \(sql: attempt), claimed_by = \(owner)
               WHERE id = ANY (ARRAY(SELECT id FROM taken)))
            SELECT id, \(sql: attempt), due_at, \(sql: returning) FROM taken ORDER BY place
            """
        )
        if againFirst { connection.floors.nothingAgainAt = rows.contains { $0.integer(at: 2) != 0 } ? nil : now }
        let seen = try connection.rows(of: newest).first?.integer(at: 0) ?? 0
        if let known = connection.floors.queues[queue]?.known?.id, seen < known {
            // The table was emptied, so its ids begin anew.
            connection.floors.queues[queue] = nil
        }
        let end = Self.end(of: rows, againFirst: againFirst, suspects: suspects, newest: seen, at: now)
        connection.floors.queues[queue]?.end(at: now, from: Self.begin(of: rows), upTo: end)
        return rows
    }

    /// SQL: the due rows to take as `taken`, each with its `place`. As in `Claim.claimable`, a row that may have killed the process comes
    /// alone.
    private func taken(upTo limit: Int, at now: Timestamp, above floor: QueuePlace?, againFirst: Bool, suspects: Bool) -> SQL {
        // No sign-in was ever due before 0. A search from 0 on does not read through all new sign-ins.
        let lowest = Timestamp(milliseconds: queue == .grant ? 0 : .min)
        let fresh: (name: String, condition: SQL) = ("fresh", "due_at = 0 AND id > \(floor?.id ?? 0)")
        let again: (name: String, condition: SQL) = ("again", "due_at > \(floor?.dueAt ?? lowest) AND due_at <= \(now) AND due_at <> 0")
        let (first, second) = againFirst ? (again, fresh) : (fresh, again)
        let due: SQL = "SELECT *, \(sql: size) AS size FROM \(sql: queue.rawValue) WHERE \(sql: condition)"
        return """
            \(sql: first.name) AS MATERIALIZED (
              \(due) AND \(first.condition)
               ORDER BY due_at, id LIMIT \(limit) FOR UPDATE SKIP LOCKED),
            \(sql: second.name) AS MATERIALIZED (
              \(due) AND \(second.condition)
               ORDER BY due_at, id LIMIT \(limit) - (SELECT COUNT(*) FROM \(sql: first.name)) FOR UPDATE SKIP LOCKED),
            numbered AS (
              SELECT *, row_number() OVER w AS place, attempts >= \(sql: Claim.suspectAttempts) AS is_suspect,
                     bool_or(attempts >= \(sql: Claim.suspectAttempts)) OVER w AS follows_suspect, sum(size) OVER w - size AS size_before
                FROM (SELECT * FROM fresh UNION ALL SELECT * FROM again) AS due
              WINDOW w AS (ORDER BY \(sql: againFirst ? "due_at = 0, due_at, id" : "due_at, id"))),
            taken AS MATERIALIZED (
              SELECT * FROM numbered
               WHERE CASE WHEN place = 1 AND is_suspect THEN \(suspects) ELSE NOT follows_suspect END
                 AND size_before < \(sql: Queue.largestClaim))
            """
    }

    /// The first place of each order; nil if there is no row.
    private static func begin(of rows: [PostgresRow]) -> QueuePlace? {
        let (fresh, again) = (rows.first { $0.integer(at: 2) == 0 }, rows.first { $0.integer(at: 2) != 0 })
        return rows.isEmpty ? nil : QueuePlace(id: fresh?.integer(at: 0), dueAt: again?.time(at: 2))
    }

    /// The place up to which nothing is left; nil if unknown.
    private static func end(of rows: [PostgresRow], againFirst: Bool, suspects: Bool, newest: Int64, at now: Timestamp) -> QueuePlace? {
        guard let last = rows.last else {
            // The claim may have skipped a suspect.
            return suspects ? QueuePlace(id: newest, dueAt: now) : nil
        }
        let dueAt = last.integer(at: 2)
        // A claim takes rows of the second order only after it is through with the first.
        if dueAt == 0 { return QueuePlace(id: last.integer(at: 0), dueAt: againFirst ? now : nil) }
        // Rows that a move has brought are due before all others.
        return dueAt > 0 ? QueuePlace(id: againFirst ? nil : newest, dueAt: Timestamp(milliseconds: dueAt - 1)) : nil
    }
}
