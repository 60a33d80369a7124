// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB

/// Tries what every insert of a backend begins with: it takes the write lock, and writes nothing.
///
/// A forgotten transaction in somebody's shell keeps every backend out. They then lose each sign-in and each notification, while the queues
/// are empty and siwatch itself has nothing to write.
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
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(patience / .seconds(1))
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
        connection = try translatingErrors { try DatabaseQueue(path: path, configuration: configuration) }
    }

    /// As `CredentialStore.insertObstacle()`.
    package func obstacle() async throws -> String? {
        if let journal = RollbackJournal.obstacle(at: path) { return journal }
        if let holder = await fileHolder() {
            return "\(holder) keeps the file \(path) locked, so that no new connection can open it\(holder.remedy)"
        }
        do {
            try await connection.writeWithoutTransaction { db in try db.inTransaction(.immediate) { .rollback } }
            return nil
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            let holder = KernelLock.write.holder(ofDatabase: path)
            if holder?.process == getpid() {
                return "\(Self.ownSlowness) longer than \(patience.milliseconds) ms: the disk is slow"
            }
            let name = holder?.description ?? "a process that the kernel does not name"
            return "\(name) has kept the write lock of \(path) for more than \(patience.milliseconds) ms\(holder?.remedy ?? "")"
        } catch let error as DatabaseError {
            throw StoreError(error)
        }
    }

    /// The process that locks the whole file. This process has the file open already, so it would not feel the lock.
    private func fileHolder() async -> LockHolder? {
        guard let holder = KernelLock.file.holder(ofDatabase: path) else { return nil }
        try? await Task.sleep(for: .milliseconds(300))
        return KernelLock.file.holder(ofDatabase: path) == holder ? holder : nil
    }

    package func close() throws {
        try connection.close()
    }
}

extension SQLiteStore {
    package func insertObstacle() async throws -> String? { try await insertProbe?.obstacle() }
}
