// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import GRDB

extension SQLiteStore: TableStore {
    package func query<Value: Sendable>(_ body: @escaping @Sendable (SQLiteConnection) throws -> Value) async throws -> Value {
        try await read { db in try body(SQLiteConnection(db)) }
    }

    /// The same as `query`, because readers do not wait for each other.
    package func shortQuery<Value: Sendable>(_ body: @escaping @Sendable (SQLiteConnection) throws -> Value) async throws -> Value {
        try await query(body)
    }

    package func laneQuery<Value: Sendable>(_ body: @escaping @Sendable (SQLiteConnection) throws -> Value) async throws -> Value {
        try await query(body)
    }

    package func transaction<Value: Sendable>(_ body: @escaping @Sendable (SQLiteConnection) throws -> Value) async throws -> Value {
        try await write { db in try body(SQLiteConnection(db)) }
    }

    package func blockingQuery<Value: Sendable>(_ body: @Sendable (SQLiteConnection) throws -> Value) throws -> Value {
        try translatingErrors {
            // On the connection that also writes, GRDB reads under a pragma that voids every compiled statement.
            if let memory { return try memory.writeWithoutTransaction { db in try body(SQLiteConnection(db)) } }
            return try writer.read { db in try body(SQLiteConnection(db)) }
        }
    }

    package func blockingTransaction<Value: Sendable>(_ body: @Sendable (SQLiteConnection) throws -> Value) throws -> Value {
        try translatingErrors { try writer.write { db in try body(SQLiteConnection(db)) } }
    }

    package func tookIn(_ apps: [AppClients]) throws {
        try blockingTransaction { connection in
            // A process that died had claimed a grant with an attempt. Such a grant is due before the others.
            try connection.execute(
                """
                UPDATE grant_queue SET due_at = 0
                 WHERE due_at > 0 AND claimed_by IS NULL AND attempts = 0 AND is_ahead = 0 AND client_id IN (SELECT client_id FROM client)
                """
            )
        }
    }

    package func tokenWasErased() {
        checkpointer?.mustTruncate()
    }

    package func notificationsWereReleased() {}

    package func forgetOwn(at now: Timestamp) {}

    package var version: String { SQLiteLibrary.version }

    /// Makes erased rows unreadable in the files too.
    package func sweep(at now: Timestamp) async throws {
        try await checkpointer?.truncateAfterErasure(at: now)
    }

    /// Since when a reader has kept erased rows readable in the log; nil if none does.
    package var logPinnedSince: Timestamp? { checkpointer?.pinnedSince }

    /// Records that siwatch lives, for the view `heartbeat`. On a server the fleet says so.
    package func beat(at now: Timestamp) async throws {
        try await transaction { try $0.set("alive_at", to: now.milliseconds) }
    }
}
