// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
import GRDB
import NIOConcurrencyHelpers

extension SQLiteStore: TableStore {
    /// Every kind is the same, because readers do not wait for each other.
    package func query<Value: Sendable>(_ kind: QueryKind, _ body: @escaping @Sendable (SQLiteConnection) throws -> Value) async throws
        -> Value
    {
        try await translatingErrors {
            // On the connection that also writes, GRDB reads under a pragma that voids every compiled statement.
            if let memory { return try await memory.writeWithoutTransaction { db in try body(SQLiteConnection(db)) } }
            return try await writer.read { db in try body(SQLiteConnection(db)) }
        }
    }

    /// Begins IMMEDIATE, so that it never fails half-way for want of the lock.
    package func transaction<Value: Sendable>(_ body: @escaping @Sendable (SQLiteConnection) throws -> Value) async throws -> Value {
        try await translatingErrors {
            try await writer.writeWithoutTransaction { [decisions] db in
                var value: Value?
                decisions.begin()
                do {
                    try db.inTransaction(.immediate) {
                        value = try body(SQLiteConnection(db))
                        decisions.prepare()
                        return .commit
                    }
                } catch {
                    decisions.end(value == nil ? .rolledBack : .unknown)
                    throw error
                }
                decisions.end(.committed)
                return value!
            }
        }
    }

    package func blockingQuery<Value: Sendable>(_ body: @Sendable (SQLiteConnection) throws -> Value) throws -> Value {
        try translatingErrors {
            if let memory { return try memory.writeWithoutTransaction { db in try body(SQLiteConnection(db)) } }
            return try writer.read { db in try body(SQLiteConnection(db)) }
        }
    }

    package func blockingTransaction<Value: Sendable>(_ body: @Sendable (SQLiteConnection) throws -> Value) throws -> Value {
        try translatingErrors { try writer.write { db in try body(SQLiteConnection(db)) } }
    }

    package func tookIn(_ apps: [AppClients]) throws {
        try blockingTransaction { try $0.execute("UPDATE grant_queue SET due_at = 0 WHERE \(sql: Tables.released)") }
    }

    package func tokenWasErased() { checkpointer?.mustTruncate() }
    package func notificationsWereReleased() {}
    package func forgetOwn(at now: Timestamp) {}

    package var version: String { SQLiteLibrary.version }

    package func sweep(at now: Timestamp, patience: Duration) async throws {
        try await checkpointer?.truncateAfterErasure(at: now, patience: patience)
    }

    package var logPinnedSince: Timestamp? { checkpointer?.pinnedSince }

    package func beat(at now: Timestamp) async throws {
        try await transaction { try $0.set("alive_at", to: now.milliseconds) }
    }
}

func translatingErrors<Value>(_ body: () throws -> Value) throws -> Value {
    do {
        return try body()
    } catch let error as DatabaseError {
        throw StoreError(error)
    }
}

func translatingErrors<Value>(_ body: () async throws -> Value) async throws -> Value {
    do {
        return try await body()
    } catch let error as DatabaseError {
        throw StoreError(error)
    }
}

extension StoreError {
    /// SQLite's text for an error names tables and columns, never values.
    init(_ error: DatabaseError) {
        let text = "\(error.extendedResultCode): \(error.message ?? "")"
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED: self = .busy
        case .SQLITE_FULL: self = .full()
        case .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG, .SQLITE_RANGE: self = .refused(text)
        case .SQLITE_READONLY, .SQLITE_PERM: self = .readOnly(text)
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .damaged(text)
        default: self = .outcomeUnknown(text)
        }
    }
}

/// The state of the queues. The claims say which rows are due.
extension SQLiteStore {
    package func queues(in connection: SQLiteConnection) throws -> [QueueStatus] {
        try Queue.allCases.map { queue in
            let counts = try connection.fetchOne(
                """
                SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = \(queue.rawValue)), 0),
                       COALESCE((SELECT value FROM counter WHERE name = \(queue.removedCounter)), 0)
                """
            )
            let (appended, removed) = (counts?.integer(at: 0) ?? 0, counts?.integer(at: 1) ?? 0)
            let oldest = try connection.fetchOne("SELECT id, \(sql: queue.arrivalColumn) FROM \(sql: queue.rawValue) ORDER BY id LIMIT 1")
            // Rows deleted by hand were not counted, so known bounds limit the difference. Nothing waits before the oldest row.
            // A member of the group can write any number.
            let depth = oldest.map { row in
                Int(clamping: max(1, min(Int128(appended) - Int128(removed), Int128(appended) - Int128(row.integer(at: 0)) + 1)))
            }
            return QueueStatus(queue: queue.label, depth: depth ?? 0, oldest: oldest?.integer(at: 1), settled: counts?.count(at: 1) ?? 0)
        }
    }

    package func dueRows(at now: Timestamp, upTo limit: Int, in connection: SQLiteConnection) throws -> [String: Int] {
        let ended = runs.withLockedValue { $0.ended(at: now, furthest: now.advanced(by: Queue.notification.longestDelay)) }
        let lanes: [(queue: Queue, condition: String)] = [
            (.notification, "due_at = 0 AND id > \(NotificationRows.mark)"),
            (.notification, Tables.setAside),
            (.notification, "due_at = 0 AND id BETWEEN \(ended?.lowerBound ?? 1) AND \(ended?.upperBound ?? 0)"),
            (.grant, Tables.withoutCode),
            (.grant, "\(Tables.withCode) AND granted_at > 0"),
        ]
        return try lanes.reduce(into: [:]) { due, lane in
            due[lane.queue.label, default: 0] += try connection.count(
                "SELECT 1 FROM \(sql: lane.queue.rawValue) WHERE \(sql: lane.condition) AND due_at <= \(now) LIMIT \(limit)"
            )
        }
    }
}
