// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB

extension SQLiteStore {
    /// Writes one consistent copy to a new file of mode 0600, while others read and write. Until it is verified and on disk it is a draft.
    /// - Throws: `BackupError`, or `StoreError`. Then siwatch has removed the draft, unless it was whole on disk.
    package func backUp(to path: String) async throws {
        func failure() -> BackupError { .unwritable(path: path, reason: String(cString: strerror(errno))) }
        var status = stat()
        guard lstat(path, &status) != 0 else { throw BackupError.exists(path: path) }
        let draft = Self.draft(of: path)
        Self.removeDraft(draft)
        // SQLite fills an existing empty file. A file that SQLite creates would be readable by others.
        let descriptor = Foundation.open(draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw errno == EEXIST ? BackupError.exists(path: draft) : failure()
        }
        defer { Foundation.close(descriptor) }
        do {
            try await writer.writeWithoutTransaction { db in
                try db.execute(sql: "VACUUM INTO ?", arguments: [draft])
            }
            guard fsync(descriptor) == 0 else { throw failure() }
        } catch {
            unlink(draft)
            guard let error = error as? DatabaseError else { throw error }
            switch error.resultCode {
            case .SQLITE_FULL: throw BackupError.unwritable(path: path, reason: "there is no space left")
            default: throw StoreError(error)
            }
        }
        try Self.verify(copy: draft)
        // A link refuses a name that is taken. Some file systems have none.
        let isLinked = link(draft, path) == 0
        guard isLinked || errno != EEXIST else { throw BackupError.exists(path: path) }
        guard isLinked ? unlink(draft) == 0 : rename(draft, path) == 0, synchronizeFolder(of: path) else { throw failure() }
    }

    package static func draft(of path: String) -> String { "\(path).partial" }

    /// Removes the draft of a run that was cut short, and SQLite's journal of it. A run that is at work has a lock on its draft.
    package static func removeDraft(_ path: String) {
        let descriptor = Foundation.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        defer { Foundation.close(descriptor) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { return }
        for file in [path + RollbackJournal.suffix, path] { unlink(file) }
    }

    /// Reads every page of a copy. Changes nothing, and leaves no file beside it.
    package static func verify(copy path: String) throws {
        let copy = DatabaseFile(path: path)
        do {
            guard try copy.inspect() == .siwatch(version: copy.steps.newest) else {
                throw BackupError.damaged(path: path, reason: "it holds no tables of siwatch's")
            }
            if let damage = try copy.firstDamage() { throw BackupError.damaged(path: path, reason: damage) }
        } catch let unusable as DatabaseFile.Unusable {
            throw BackupError.damaged(path: path, reason: "\(unusable)")
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
    /// The draft is not whole. It stays, for a look at it.
    case damaged(path: String, reason: String)
}
