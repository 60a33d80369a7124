// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Foundation
internal import GRDB

/// What concerns the file as a whole.
extension SQLiteStore {
    /// Writes one consistent copy to a new file of mode 0600, while others read and write. When this returns, it is on disk to stay.
    ///
    /// - Throws: `BackupError`, or `StoreError`. What was written of the copy is gone then.
    package func backUp(to path: String) async throws {
        // SQLite fills a file that is empty, and would make one that others may read.
        let descriptor = Foundation.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw errno == EEXIST ? BackupError.exists(path: path) : .unwritable(path: path, reason: String(cString: strerror(errno)))
        }
        defer { Foundation.close(descriptor) }
        do {
            try await writer.writeWithoutTransaction { db in
                try db.execute(sql: "VACUUM INTO ?", arguments: [path])
            }
            guard fsync(descriptor) == 0, synchronizeFolder(of: path) else {
                throw BackupError.unwritable(path: path, reason: String(cString: strerror(errno)))
            }
        } catch {
            unlink(path)
            guard let error = error as? DatabaseError else { throw error }
            switch error.resultCode {
            case .SQLITE_FULL: throw BackupError.unwritable(path: path, reason: "there is no space left")
            default: throw StoreError(error)
            }
        }
    }

    private func synchronizeFolder(of path: String) -> Bool {
        let descriptor = Foundation.open(URL(filePath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { Foundation.close(descriptor) }
        return fsync(descriptor) == 0
    }

    /// Gives an app another name, in every table that holds it. For the holder of the lock.
    ///
    /// - Throws: `AppRenameError`, and nothing has changed then.
    package func renameApp(_ old: String, to new: String) async throws {
        try await write { db in
            let known = try String.fetchAll(db, sql: "SELECT name FROM app ORDER BY name")
            guard known.contains(old) else { throw AppRenameError.unknown(old, known: known) }
            guard !known.contains(new) else { throw AppRenameError.taken(new) }
            try db.execute(sql: "UPDATE app SET name = ? WHERE name = ?", arguments: [new, old])
            for table in ["notification_log", "credential_change"] {
                try db.execute(sql: "UPDATE \(table) SET app = ? WHERE app = ?", arguments: [new, old])
            }
        }
    }

    /// Appends a notification to its queue, as a backend does.
    ///
    /// - Throws: `StoreError.refused` for a body that is empty or too long.
    package func enqueue(notification body: [UInt8]) async throws -> Int64 {
        try await write { db in
            try db.execute(
                sql: "INSERT INTO notification_queue (payload) VALUES (CAST(? AS TEXT))",
                arguments: [Data(body)]
            )
            return db.lastInsertedRowID
        }
    }

    /// In bytes: what the queue takes.
    package static let longestNotification = 65_536
}

package enum BackupError: Error, Sendable, Equatable {
    case exists(path: String)
    case unwritable(path: String, reason: String)
}

package enum AppRenameError: Error, Sendable, Equatable {
    case unknown(String, known: [String])
    case taken(String)
}
