// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

extension PostgresStore: TableStore {
    package func query<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value {
        try await reader.run(since: .now) { connection in
            try connection.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            let value = try body(connection)
            try connection.send("COMMIT")
            return value
        }
    }

    /// Uses the connection of the renewals, which has no long query.
    package func shortQuery<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value {
        try await renewals.run(body)
    }

    /// Uses the connection of the claims, so that a locked table does not block the renewals.
    package func laneQuery<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value {
        try await claims.run(body)
    }

    package func transaction<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value {
        try await writer.transaction(since: .now, body)
    }

    package func blockingQuery<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value {
        try reader.wait { reader in try reader.run(body) }
    }

    package func blockingTransaction<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value {
        try writer.wait { writer in try writer.transaction(body) }
    }

    /// Works in portions, because an import of millions may wait for a client.
    package func tookIn(_ apps: [AppClients]) throws {
        registered.withLockedValue { $0 = apps }
        var portion: Int64? = 0
        while let begin = portion {
            portion = try blockingTransaction { connection in
                // A grant with an attempt came with a move. A process that died had claimed it. It is due before the others.
                try connection.rows(
                    """
                    WITH portion AS MATERIALIZED (
                      SELECT id FROM grant_queue
                       WHERE id > \(begin) AND due_at > 0 AND claimed_by IS NULL AND attempts = 0 AND is_ahead = 0
                         AND client_id IN (SELECT client_id FROM client)
                       ORDER BY id LIMIT 10000 FOR UPDATE SKIP LOCKED),
                    released AS (UPDATE grant_queue SET due_at = 0 WHERE id = ANY (ARRAY(SELECT id FROM portion)))
                    SELECT MAX(id) FROM portion
                    """
                ).first.flatMap { $0.isNull(at: 0) ? nil : $0.integer(at: 0) }
            }
        }
    }

    /// The erased bytes stay in dead rows until the server's vacuum has passed.
    package func tokenWasErased() {}

    /// The next claim looks below its floor.
    package func notificationsWereReleased() async {
        // If the connection is lost, so is its floor.
        _ = try? await claims.run { $0.floors.queues[.notification] = nil }
    }

    /// Deletes the batch numbers of processes that are gone.
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
