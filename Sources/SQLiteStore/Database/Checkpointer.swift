// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB
import GRDBSQLite
import Synchronization

/// Moves committed pages from the log into the file, so that no other connection has to.
///
/// SQLite before 3.51.3 can lose committed pages when a commit restarts the log between two checkpoints. So a checkpoint runs on a second
/// connection while siwatch's writer holds the write lock. Nobody can restart the log meanwhile.
final class Checkpointer: Sendable {
    /// In pages. Well below the 1,000 pages at which a backend's own connection starts a checkpoint.
    static let threshold = 500

    private let files: OpenFiles
    private let pool: DatabasePool
    private let connection: DatabaseQueue
    let foreign: ForeignCheckpoints
    /// Pages in the log after the last commit of siwatch's writer.
    private let logPages: LogPages

    /// Whether the log may hold an erased token. At first true, because a former process may have left one.
    private let holdsErasedToken = Atomic<Bool>(true)

    /// Pages in the log at the last checkpoint.
    private let triedAtPages = Atomic<Int>(0)

    /// When siwatch last tried to empty the log, since 1970.
    private let truncatedAtMilliseconds = Atomic<Int64>(0)

    /// Since when siwatch could not empty a log that holds erased data; 0 if it could.
    private let pinnedSinceMilliseconds = Atomic<Int64>(0)

    private final class LogPages: Sendable {
        let count = Atomic<Int>(0)
    }

    init(path: String, pool: DatabasePool, files: OpenFiles) throws {
        self.pool = pool
        self.files = files
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY")
        }
        connection = try DatabaseQueue(path: path, configuration: configuration)
        foreign = ForeignCheckpoints(logPath: path + "-wal")
        let logPages = LogPages()
        self.logPages = logPages
        // Only this hook tells the log's length without a checkpoint. Its context is never freed, because the last holder of the pool may
        // commit after this object is gone.
        pool.writeWithoutTransaction { db in
            _ = sqlite3_wal_hook(
                db.sqliteConnection,
                { context, _, _, pages in
                    let logPages = Unmanaged<LogPages>.fromOpaque(context!).takeUnretainedValue()
                    logPages.count.store(Int(pages), ordering: .relaxed)
                    return SQLITE_OK
                },
                Unmanaged.passRetained(logPages).toOpaque()
            )
        }
    }

    /// Whether somebody has removed a file that all connections must share. Other connections then see the file with another log, so ours
    /// gets into the file at the end only.
    private var isDisplaced: Bool { files.displaced != nil }

    /// Checkpoints if the log has grown long since the last checkpoint. A reader may pin a part of the log, which then stays.
    func checkpointIfNeeded() async throws {
        let pages = logPages.count.load(ordering: .relaxed)
        // A log that is shorter than before was started anew.
        if pages < triedAtPages.load(ordering: .relaxed) { triedAtPages.store(0, ordering: .relaxed) }
        guard pages - triedAtPages.load(ordering: .relaxed) >= Self.threshold else { return }
        triedAtPages.store(pages, ordering: .relaxed)
        try await checkpoint()
    }

    func checkpoint() async throws {
        guard !isDisplaced else { return }
        try await pool.writeWithoutTransaction { [connection, foreign] db in
            try db.inTransaction(.immediate) {
                foreign.look()
                try connection.inDatabase { other in
                    // The columns: busy, pages in the log, pages of it that are in the file.
                    let result = try Row.fetchOne(other, sql: "PRAGMA wal_checkpoint(PASSIVE)")
                    if let result, result[1] as Int == result[2] { foreign.completedOurs() }
                }
                return .rollback
            }
        }
    }

    func mustTruncate() {
        holdsErasedToken.store(true, ordering: .relaxed)
    }

    /// Empties the log if it holds erased data, and once a day.
    func truncateAfterErasure(at now: Timestamp) async throws {
        let isStale = abs(now.milliseconds - truncatedAtMilliseconds.load(ordering: .relaxed)) > Duration.days(1).milliseconds
        let holdsErased = holdsErasedToken.exchange(false, ordering: .relaxed)
        guard holdsErased || isStale else { return }
        truncatedAtMilliseconds.store(now.milliseconds, ordering: .relaxed)
        var isEmpty = false
        defer {
            if isEmpty {
                pinnedSinceMilliseconds.store(0, ordering: .relaxed)
            } else if holdsErased {
                mustTruncate()
                if pinnedSince.map({ $0 > now }) ?? true { pinnedSinceMilliseconds.store(now.milliseconds, ordering: .relaxed) }
            } else {
                truncatedAtMilliseconds.store(0, ordering: .relaxed)
            }
        }
        // If a reader is in the way, siwatch tries again later. Waiting for the reader would block every writer.
        isEmpty = try await pool.writeWithoutTransaction { [self] db in try !isDisplaced && truncateLog(db, waiting: .zero) }
    }

    /// Since when a reader has kept siwatch from emptying a log that holds erased data; nil if none does.
    var pinnedSince: Timestamp? {
        let milliseconds = pinnedSinceMilliseconds.load(ordering: .relaxed)
        return milliseconds == 0 ? nil : Timestamp(milliseconds: milliseconds)
    }

    /// Empties the log, so that no erased data stays readable in it. Takes the write lock itself.
    ///
    /// - Returns: whether the log is empty; false if a reader stood in the way for too long.
    @discardableResult
    func truncateLog(waiting timeout: Duration = .seconds(5)) throws -> Bool {
        try pool.writeWithoutTransaction { db in try truncateLog(db, waiting: timeout) }
    }

    private func truncateLog(_ db: Database, waiting timeout: Duration) throws -> Bool {
        foreign.look()
        sqlite3_busy_timeout(db.sqliteConnection, Int32(timeout.milliseconds))
        defer { sqlite3_busy_timeout(db.sqliteConnection, 5000) }
        guard try Row.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)")?[0] as Int? == 0 else { return false }
        foreign.completedOurs()
        logPages.count.store(0, ordering: .relaxed)
        return true
    }

    func close() throws {
        try connection.close()
    }
}
