// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
import NIOConcurrencyHelpers

extension PostgresStore: TableStore {
    package func query<Value: Sendable>(_ kind: QueryKind, _ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value {
        switch kind {
        case .short: try await renewals.run(body)
        // A locked table does not block the renewals.
        case .ofLane: try await claims.run(body)
        case .long:
            try await reader.run(since: .now) { connection in
                try connection.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                let value = try body(connection)
                try connection.send("COMMIT")
                return value
            }
        }
    }

    package func transaction<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value {
        try await writer.transaction(since: .now, body)
    }

    package func blockingQuery<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value {
        try reader.wait(body)
    }

    package func blockingTransaction<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value {
        try writer.waitForTransaction(body)
    }

    /// Works in portions, because an import of millions may wait for a client.
    package func tookIn(_ apps: [AppClients]) throws {
        registered.withLockedValue { $0 = apps }
        var portion: Int64? = 0
        while let begin = portion {
            portion = try blockingTransaction { connection in
                try connection.fetchOne(
                    """
                    WITH portion AS MATERIALIZED (
                      SELECT id FROM grant_queue WHERE id > \(begin) AND \(sql: Tables.released)
                       ORDER BY id LIMIT 10000 FOR UPDATE SKIP LOCKED),
                    released AS (UPDATE grant_queue SET due_at = 0 WHERE id = ANY (ARRAY(SELECT id FROM portion)))
                    SELECT MAX(id) FROM portion
                    """
                ).flatMap { $0.isNull(at: 0) ? nil : $0.integer(at: 0) }
            }
        }
    }

    /// Erased bytes stay in dead rows until the server's vacuum has passed, and in its log and archives.
    package func tokenWasErased() {}

    package func notificationsWereReleased() async {
        // If the connection is lost, so is its floor.
        _ = try? await claims.run { $0.floors.queues[.notification] = nil }
    }

    package func forgetOwn(at now: Timestamp) async throws {
        try await transaction { connection in
            try connection.execute(
                """
                DELETE FROM settled_batch b
                 WHERE settled_at < \(now.advanced(by: .days(-1))) AND NOT EXISTS (SELECT 1 FROM replica r WHERE r.owner = b.owner)
                """
            )
        }
    }
}

extension PostgresStore {
    /// Takes the lock that an insert takes on each queue, and asks whether the roles that backends log in by may insert. A queue may be
    /// full of work and still closed to backends: somebody has locked the table, or has taken a right away.
    package func insertObstacle() async throws -> String? {
        // Each try waits a second for the lock. A backend waits without end, so a short maintenance is no obstacle.
        var obstacle: String?
        for _ in 1...Self.insertTries {
            do { return try await tryInsert() } catch StoreError.retry(let reason) { obstacle = reason }
        }
        return obstacle
    }

    private static let insertTries = 5

    private func tryInsert() async throws -> String? {
        try await reader.run { [address] connection in
            if let missing = try connection.missingInsertRights(in: address.schema) { return missing }
            try connection.send("BEGIN")
            try connection.send("LOCK TABLE \(sql: Queue.allCases.map(\.rawValue).joined(separator: ", ")) IN ROW EXCLUSIVE MODE")
            try connection.send("ROLLBACK")
            return nil
        }
    }
}

extension Connection {
    /// The roles that may not insert into their queues, and are used: somebody other than siwatch logs in as them, or belongs to them.
    func missingInsertRights(in schema: String) throws -> String? {
        let pairs = Queue.allCases.flatMap { queue in Schema.roles(of: queue).map { (role: $0, table: queue.rawValue) } }
        let missing = try fetchAll(
            """
            SELECT quote_ident(r.rolname), p.queue FROM unnest(\(array: pairs.map(\.role)), \(array: pairs.map(\.table))) AS p (role, queue)
              JOIN pg_roles r ON r.rolname = p.role
             WHERE (r.rolcanlogin
                    OR EXISTS (SELECT 1 FROM pg_auth_members m JOIN pg_roles u ON u.oid = m.member
                                WHERE m.roleid = r.oid AND u.rolname <> current_user))
               AND NOT (has_schema_privilege(r.oid, \(schema), 'USAGE')
                        AND has_any_column_privilege(r.oid, format('%I.%I', \(schema), p.queue), 'INSERT'))
             ORDER BY 1, 2
            """
        ).map { "\($0.text(at: 0) ?? "") may not insert into \($0.text(at: 1) ?? "")" }
        return missing.isEmpty ? nil : missing.joined(separator: ", ")
    }
}

extension PostgresStore {
    package func sweep(at now: Timestamp, patience: Duration) async throws { try await endStalledTransactions() }

    package var logPinnedSince: Timestamp? { get async throws { try await oldestSnapshot(heldFor: .seconds(60)) } }

    /// Since when somebody holds a snapshot of the database for so long, or has written and not committed. Vacuum leaves the rows that they
    /// may still see. The server shows other users' transactions only to members of `pg_read_all_stats`.
    func oldestSnapshot(heldFor time: Duration) async throws -> Timestamp? {
        try await reader.run { connection in
            try connection.fetchOne(
                """
                SELECT (floor(extract(epoch FROM MIN(since)) * 1000))::bigint
                  FROM (SELECT COALESCE(xact_start, query_start) AS since FROM pg_stat_activity
                         WHERE num_nulls(backend_xmin, backend_xid) < 2 AND datname = current_database() AND pid <> pg_backend_pid()
                           AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
                        UNION ALL SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()) held
                 WHERE since <= clock_timestamp() - \(time) * INTERVAL '1 millisecond'
                """
            )?.time(at: 0)
        }
    }
}

extension PostgresStore {
    /// siwatch counts up to this many rows of a queue one by one. Beyond, it takes the span of ids, which is never too small.
    private static let mostCounted = 100_000

    package func queues(in connection: Connection) throws -> [QueueStatus] {
        let answers = try Queue.allCases.map { queue in
            try connection.send(
                """
                SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM \(sql: queue.rawValue) LIMIT \(Self.mostCounted)) q),
                       (SELECT MAX(id) - MIN(id) + 1 FROM \(sql: queue.rawValue)),
                       (SELECT \(sql: queue.arrivalColumn) FROM \(sql: queue.rawValue) ORDER BY id LIMIT 1),
                       COALESCE((SELECT value FROM counter WHERE name = \(queue.removedCounter)), 0)
                """
            )
        }
        return try zip(Queue.allCases, answers).map { queue, answer in
            let row = try connection.rows(of: answer).first
            let counted = row?.int(at: 0) ?? 0
            let depth = counted < Self.mostCounted ? counted : max(counted, row?.int(at: 1) ?? 0)
            return QueueStatus(queue: queue.label, depth: depth, oldest: row?.time(at: 2)?.milliseconds, settled: row?.int(at: 3) ?? 0)
        }
    }

    package func dueRows(at now: Timestamp, upTo limit: Int, in connection: Connection) throws -> [String: Int] {
        let lanes = [(Queue.notification, Tables.anyNotification), (.grant, Tables.withoutCode), (.grant, Tables.withCode)]
        let answers = try lanes.map { queue, lane in
            let due: SQL = "SELECT 1 FROM \(sql: queue.rawValue) WHERE \(sql: lane) AND due_at <= \(now) LIMIT \(limit)"
            return (queue, try connection.send("SELECT COUNT(*) FROM (\(due)) q"))
        }
        return try answers.reduce(into: [:]) { due, lane in
            due[lane.0.label, default: 0] += try connection.rows(of: lane.1)[0].int(at: 0)
        }
    }
}
