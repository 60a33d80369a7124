// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB
import GRDBSQLite
import NIOConcurrencyHelpers
import Synchronization

/// Moves committed pages from the log into the file, so that no other connection has to. SQLite before 3.51.3 can lose committed pages when
/// a commit restarts the log between two checkpoints. So a checkpoint runs on a second connection while siwatch's writer holds the write
/// lock.
final class Checkpointer: Sendable {
    /// In pages. Well below the 1,000 pages at which a backend's own connection starts a checkpoint.
    static let threshold = 500

    private let files: OpenFiles
    private let pool: DatabasePool
    private let connection: DatabaseQueue
    let foreign: ForeignCheckpoints
    /// Pages in the log after the last commit of siwatch's writer.
    private let logPages: LogPages
    private let erasure = NIOLockedValueBox(PendingErasure())
    /// Pages in the log at the last checkpoint.
    private let triedAtPages = Atomic<Int>(0)

    private struct PendingErasure {
        /// Whether the log may hold an erased token. At first true, because a former process may have left one.
        var isInLog = true
        var triedAt: Timestamp?
        var pinnedSince: Timestamp?
    }

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

    func mustTruncate() { erasure.withLockedValue { $0.isInLog = true } }

    /// Empties the log if it holds erased data, and once a day.
    func truncateAfterErasure(at now: Timestamp, patience: Duration) async throws {
        let old = erasure.withLockedValue { erasure in
            defer { erasure.isInLog = false }
            return erasure
        }
        let isStale = old.triedAt.map { abs(now.milliseconds - $0.milliseconds) > Duration.days(1).milliseconds } ?? true
        guard old.isInLog || isStale else { return }
        var isEmpty = false
        defer {
            erasure.withLockedValue { [isEmpty] erasure in
                erasure.triedAt = isEmpty || old.isInLog ? now : nil
                if isEmpty {
                    erasure.pinnedSince = nil
                } else if old.isInLog {
                    erasure.isInLog = true
                    if old.pinnedSince.map({ $0 > now }) ?? true { erasure.pinnedSince = now }
                }
            }
        }
        isEmpty = try await pool.writeWithoutTransaction { [self] db in try !isDisplaced && truncateLog(db, waiting: patience) }
    }

    /// Since when a reader has kept siwatch from emptying a log that holds erased data; nil if none does.
    var pinnedSince: Timestamp? { erasure.withLockedValue(\.pinnedSince) }

    /// Empties the log, under the write lock. Returns false if a reader stood in the way for too long.
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

    func close() throws { try connection.close() }
}

/// Counts the restarts of the log that siwatch's own checkpoints do not explain: another connection made these, and should not.
///
/// Each restart changes the first salt in the log's header (https://www.sqlite.org/fileformat2.html#walformat). SQLite adds one, or takes a
/// random number if the log was empty. The sequence number beside it does not help, because every connection counts its own.
final class ForeignCheckpoints: Sendable {
    private let logPath: String
    private let state = NIOLockedValueBox(State())

    private struct State {
        var salt: UInt32?
        /// siwatch's last checkpoint wrote the whole log back, so one restart is its own.
        var isOurs = true
        var count = 0
    }

    init(logPath: String) { self.logPath = logPath }

    /// Looks at the log. Call it before each of siwatch's checkpoints, and now and then.
    func look() {
        guard let salt else { return }
        state.withLockedValue { state in
            let difference = state.salt.map { salt &- $0 } ?? 0
            // Nobody restarts the log that often between two looks, so the number is random.
            let starts = difference > 10_000 ? 1 : Int(difference)
            state.salt = salt
            guard starts > 0 else { return }
            state.count += starts - (state.isOurs ? 1 : 0)
            state.isOurs = false
        }
    }

    /// siwatch's checkpoint wrote the whole log back, and nobody could write since the last look.
    func completedOurs() { state.withLockedValue { $0.isOurs = true } }

    func take() -> Int {
        look()
        return state.withLockedValue { state in
            defer { state.count = 0 }
            return state.count
        }
    }

    /// Nil while the log is empty. Opening the log is harmless, because SQLite's locks are on the other two files.
    private var salt: UInt32? {
        guard let log = try? FileHandle(forReadingFrom: URL(filePath: logPath)) else { return nil }
        defer { try? log.close() }
        guard let header = try? log.read(upToCount: 20), header.count == 20 else { return nil }
        return header.suffix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }
}

extension SQLiteStore {
    package func takeForeignCheckpoints() -> Int { checkpointer?.foreign.take() ?? 0 }
}
