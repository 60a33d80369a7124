// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
import Foundation
package import GRDB
package import NIOConcurrencyHelpers

/// One SQLite file. With `journal_mode=WAL` and `synchronous=FULL`, a commit that returned is on disk.
package final class SQLiteStore: Sendable {
    let writer: any DatabaseWriter
    /// The only connection of a store without a file, which has none of the others.
    let memory: DatabaseQueue?
    let checkpointer: Checkpointer?
    let commitWatcher: CommitWatcher?
    /// Tries whether backends can insert; nil if this process only reads or appends.
    let insertProbe: InsertProbe?
    package let retention: Retention
    let files: OpenFiles?
    package let directory = NIOLockedValueBox(ClientDirectory())
    package let decisions = DecisionBook(isOnlyWriter: true)
    let runs = NIOLockedValueBox(ClaimedRuns())
    package let upkeep = NIOLockedValueBox(UpkeepProgress())
    package let owner = String(UInt64.random(in: .min ... .max), radix: 36)

    private init(
        writer: any DatabaseWriter,
        memory: DatabaseQueue? = nil,
        checkpointer: Checkpointer? = nil,
        commitWatcher: CommitWatcher? = nil,
        insertProbe: InsertProbe? = nil,
        retention: Retention = Retention(),
        files: OpenFiles? = nil
    ) {
        self.writer = writer
        self.memory = memory
        self.checkpointer = checkpointer
        self.commitWatcher = commitWatcher
        (self.insertProbe, self.retention, self.files) = (insertProbe, retention, files)
    }

    /// Opens the file and brings its schema up to date. The caller holds the lock on the database.
    /// - Throws: `DatabaseFile.Unusable` before a byte is written, or `StoreOpenError`.
    package static func open(_ file: DatabaseFile, retention: Retention = Retention()) throws -> SQLiteStore {
        try translatingErrors {
            let contents = try file.inspect()
            if contents == .none { try file.createIfMissing() }
            let pool = try DatabasePool(path: file.path, configuration: configuration)
            try pool.writeWithoutTransaction { db in
                // When GRDB opens a file in WAL mode, it sets NORMAL itself, after everything that it lets siwatch prepare.
                try db.execute(sql: "PRAGMA synchronous = FULL")
                guard try Int.fetchOne(db, sql: "PRAGMA synchronous") == 2 else {
                    throw StoreOpenError("\(file.path): SQLite does not keep PRAGMA synchronous = FULL")
                }
            }
            let files = try OpenFiles(of: file.path)
            let store = SQLiteStore(
                writer: pool,
                checkpointer: try Checkpointer(path: file.path, pool: pool, files: files),
                commitWatcher: try CommitWatcher(path: file.path),
                insertProbe: try InsertProbe(path: file.path),
                retention: retention,
                files: files
            )
            try file.migrate(pool)
            // The header must identify the file without its log.
            if contents != .siwatch(version: file.steps.newest) { try store.checkpointer?.truncateLog() }
            try store.loadDirectory()
            return store
        }
    }

    /// Opens a file for reading only. Only if a daemon has it open, the store can tell whether backends can insert.
    package static func openForReading(_ file: DatabaseFile, isInUse: Bool = false) throws -> SQLiteStore {
        try translatingErrors {
            let queue = try DatabaseQueue(path: file.path, configuration: .readOnly)
            // Without the right to write, nothing can be tried.
            let store = SQLiteStore(writer: queue, insertProbe: isInUse ? try? InsertProbe(path: file.path) : nil)
            try store.loadDirectory()
            return store
        }
    }

    /// Opens a file for appending, as a backend does, with the pragmas that docs/backend-sqlite.md asks for.
    package static func openBeside(_ file: DatabaseFile) throws -> SQLiteStore {
        try translatingErrors {
            let queue = try DatabaseQueue(path: file.path, configuration: configuration)
            try queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA synchronous = FULL") }
            return SQLiteStore(writer: queue)
        }
    }

    /// A store without a file, for tests and simulations, over a new database or one that another store has left, as a process leaves its
    /// file.
    package static func inMemory(_ database: DatabaseQueue? = nil, retention: Retention = Retention()) throws -> SQLiteStore {
        let database = try database ?? memory()
        let store = SQLiteStore(writer: database, memory: database, retention: retention)
        try store.loadDirectory()
        return store
    }

    package static func memory() throws -> DatabaseQueue {
        let database = try DatabaseQueue(configuration: configuration)
        try DatabaseFile(path: ":memory:").migrate(database)
        return database
    }

    static var configuration: GRDB.Configuration {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(5)
        configuration.maximumReaderCount = 4
        configuration.prepareDatabase { db in
            // The members of the group can write any schema and any page.
            try db.execute(sql: "PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
            guard !db.configuration.readonly else { return }
            // siwatch times the checkpoints itself. Erased tokens do not linger in free pages.
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON")
            // In bytes. Gives back the space after a reader that stayed has made the log long.
            try db.execute(sql: "PRAGMA journal_size_limit = 67108864")
            // 24 MB. Users come in no order, so siwatch reads their pages again and again.
            try db.execute(sql: "PRAGMA cache_size = -24576")
        }
        return configuration
    }

    /// Makes rows due at once that a former process claimed, and counts anew the rows that an operator may have deleted by hand. Only the
    /// holder of the lock on the database may call it. Credentials wait for the end of their lease, because the former process may have
    /// asked Apple.
    package func recover() throws {
        try blockingTransaction { [owner] connection in
            try NotificationRows(connection: connection, owner: owner).recover()
            for queue in Queue.allCases {
                if queue != .notification {
                    // A sign-in goes before new ones. A code counts as new again.
                    let dueAt = queue == .grant ? "CASE WHEN authorization_code IS NULL THEN 1 ELSE 0 END" : "0"
                    try connection.execute(
                        """
                        UPDATE \(sql: queue.rawValue) SET due_at = \(sql: dueAt), claimed_by = NULL
                         WHERE due_at > 0 AND claimed_by IS NOT NULL
                        """
                    )
                }
                try connection.execute("\(sql: Self.recountRemoved(from: queue))")
            }
            // Asking Apple once more about a token to revoke does no harm.
            try connection.execute("UPDATE revocation SET due_at = 0, claimed_by = NULL WHERE due_at > 0 AND claimed_by IS NOT NULL")
            try connection.recountQuarantine()
        }
        runs.withLockedValue { $0 = ClaimedRuns() }
    }

    /// SQL: counts the rows that have left a queue anew, from the ids that the queue gave.
    static func recountRemoved(from queue: Queue) -> String {
        """
        INSERT INTO counter (name, value)
        VALUES ('\(queue.removedCounter)',
                COALESCE((SELECT seq FROM sqlite_sequence WHERE name = '\(queue.rawValue)'), 0)
                - (SELECT COUNT(*) FROM \(queue.rawValue)))
            ON CONFLICT (name) DO UPDATE SET value = excluded.value
        """
    }

    /// Whether a file holds anything sealed. If so, no new key file may replace a lost one.
    package static func hasSealedRows(in file: DatabaseFile) throws -> Bool {
        try translatingErrors {
            let queue = try DatabaseQueue(path: file.path, configuration: .readOnly)
            defer { try? queue.close() }
            return try queue.read { db in try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM secret)") ?? false }
        }
    }

    /// Writes the log back into the file and closes every connection, the one that may write last. SQLite removes the log with it. A log
    /// that backends have begun since somebody removed ours is set aside, because SQLite would remove it too.
    package func close() throws {
        try files?.setAside()
        _ = try? checkpointer?.truncateLog()
        try commitWatcher?.close()
        try insertProbe?.close()
        try writer.close()
        try checkpointer?.close()
    }
}

extension GRDB.Configuration {
    static var readOnly: GRDB.Configuration {
        var configuration = GRDB.Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        return configuration
    }
}
