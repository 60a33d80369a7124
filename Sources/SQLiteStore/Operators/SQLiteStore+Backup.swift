// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB

extension SQLiteStore {
    /// Writes one consistent copy to a new file of mode 0600, while others read and write. On return, the copy is on disk to stay.
    ///
    /// - Throws: `BackupError`, or `StoreError`. Then siwatch has removed the partial copy.
    package func backUp(to path: String) async throws {
        // SQLite fills an existing empty file. A file that SQLite creates would be readable by others.
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
}

package enum BackupError: Error, Sendable, Equatable {
    case exists(path: String)
    case unwritable(path: String, reason: String)
}
