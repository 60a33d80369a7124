// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB

/// Tries what every insert of a backend begins with: takes the write lock, and writes nothing. While a forgotten transaction in somebody's
/// shell keeps every backend out, the queues are empty and siwatch itself has nothing to write.
package final class InsertProbe: Sendable {
    /// The busy timeout that docs/backend-sqlite.md asks of backends.
    package static let patience = Duration.seconds(5)
    /// How an obstacle begins that is siwatch's own. No process is to be ended for it.
    package static let ownSlowness = "siwatch's own commits take"

    private let path: String
    private let patience: Duration
    private let connection: DatabaseQueue

    /// - Parameter path: of a database that a siwatch has open, because the last connection that closes would write the log back.
    package init(path: String, patience: Duration = patience) throws {
        self.path = path
        self.patience = patience
        connection = try translatingErrors { try Self.connection(to: path, patience: patience) }
    }

    /// Like a backend's.
    private static func connection(to path: String, patience: Duration = patience) throws -> DatabaseQueue {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(patience / .seconds(1))
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Inserts a row into each queue as a backend of this user does, and takes all of them back.
    package static func tryInserts(at path: String) throws {
        // GRDB would make a file that is not there.
        guard access(path, F_OK) == 0 else {
            throw StoreError.unavailable("\(path) cannot be reached: \(String(cString: strerror(errno)))")
        }
        try translatingErrors {
            let queue = try connection(to: path)
            try queue.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    try db.execute(
                        sql: """
                            INSERT INTO notification_queue (payload) VALUES ('{}');
                            INSERT INTO grant_queue (client_id, user_id) VALUES ('siwatch.init', 'siwatch.init');
                            INSERT INTO revocation_queue (client_id, user_id) VALUES ('siwatch.init', 'siwatch.init');
                            """
                    )
                    return .rollback
                }
            }
            try queue.close()
        }
    }

    package func obstacle() async throws -> String? {
        if let journal = RollbackJournal.obstacle(at: path) { return journal }
        if let holder = await fileHolder() {
            return "\(holder) keeps the file \(path) locked, so that no new connection can open it\(holder.remedy)"
        }
        do {
            try await translatingErrors {
                try await connection.writeWithoutTransaction { db in try db.inTransaction(.immediate) { .rollback } }
            }
            return nil
        } catch StoreError.busy {
            let holder = KernelLock.write.holder(ofDatabase: path)
            if holder?.process == getpid() {
                return "\(Self.ownSlowness) longer than \(patience.milliseconds) ms: the disk is slow"
            }
            let name = holder?.description ?? "a process that the kernel does not name"
            return "\(name) has kept the write lock of \(path) for more than \(patience.milliseconds) ms\(holder?.remedy ?? "")"
        }
    }

    /// The process that locks the whole file. This process has the file open already, so it would not feel the lock.
    private func fileHolder() async -> LockHolder? {
        guard let holder = KernelLock.file.holder(ofDatabase: path) else { return nil }
        try? await Task.sleep(for: .milliseconds(300))
        return KernelLock.file.holder(ofDatabase: path) == holder ? holder : nil
    }

    package func close() throws { try connection.close() }
}

extension SQLiteStore {
    package func insertObstacle() async throws -> String? { try await insertProbe?.obstacle() }
}
