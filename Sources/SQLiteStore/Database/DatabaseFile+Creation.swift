// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
package import CredentialTables
import Foundation
import GRDB

extension DatabaseFile {
    /// Creates the file and marks it as siwatch's before it has its name, and before there is a log. If the process is killed at any
    /// moment, the next one knows whose the file is, and no empty file is left. A file that a backend has open stays the same file.
    func createIfMissing() throws {
        guard access(path, F_OK) != 0 else { return try make(as: path) }
        // SQLite would play the log of a database that is gone into the new one.
        unlink("\(path)-shm")
        if access("\(path)-wal", F_OK) == 0 { try OpenFiles.displace("\(path)-wal") }
        let draft = DatabaseFile(path: "\(path).new", steps: steps)
        unlink(draft.path)
        try draft.make(as: path)
        guard rename(draft.path, path) == 0 else { throw StoreOpenError("\(path) cannot be created: \(String(cString: strerror(errno)))") }
    }

    private func make(as name: String) throws {
        try makeEmptyFile(as: name)
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            // No step leaves a rollback journal, which the next process would not play back.
            let mark = "PRAGMA application_id = \(FileSchema.applicationID)"
            try db.execute(sql: "PRAGMA journal_mode = MEMORY; \(mark); PRAGMA journal_mode = WAL")
        }
        try queue.close()
    }

    /// Makes an empty file of the right mode, or gives an empty file that is there that mode. Replaces another user's empty file, because only
    /// its owner may change the mode.
    private func makeEmptyFile(as name: String) throws {
        var status = stat()
        if isEmptyFile, lstat(path, &status) == 0, status.st_uid != geteuid(), unlink(path) != 0 {
            throw StoreOpenError("\(path) is an empty file and cannot be taken over: \(String(cString: strerror(errno)))")
        }
        // In a folder that no group may enter, there are no members to share the file with.
        let folder = URL(filePath: path).deletingLastPathComponent().path
        let isPrivate = stat(folder, &status) == 0 && status.st_mode & 0o050 == 0
        // SQLite itself would give the group no access, and create the target of a link. The log beside the file inherits the file's mode.
        let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o660)
        guard descriptor >= 0, fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            let reason = descriptor < 0 ? String(cString: strerror(errno)) : "it is no regular file"
            throw StoreOpenError("\(name) cannot be created: \(reason)")
        }
        defer { close(descriptor) }
        // Sets the mode whatever umask the operator's shell has for `migrate`.
        if status.st_size == 0 { fchmod(descriptor, isPrivate ? 0o600 : 0o660) }
    }
}

extension DatabaseFile {
    package var newestVersion: Int { steps.newest }

    /// - Throws: `outdated` if a migration has to come first.
    package func exists(isInUse: Bool = false) throws(Unusable) -> Bool {
        guard case .siwatch(let version) = try inspect(isInUse: isInUse) else { return false }
        guard version == steps.newest else { throw .outdated(path: path, version: version) }
        return true
    }

    /// What a migration would do to the file. Writes no byte.
    package func migrationPlan(isInUse: Bool) throws(Unusable) -> MigrationPlan {
        let found: Int? = if case .siwatch(let version) = try inspect(isInUse: isInUse) { version } else { nil }
        return MigrationPlan(found: found, needed: steps.newest, script: steps.after(found).script)
    }

    /// Runs the missing steps, each in a transaction of its own. If the process is killed, the next migration goes on after the last whole
    /// step. The caller holds the lock on the database.
    func migrate(_ writer: some DatabaseWriter) throws {
        var migrator = DatabaseMigrator()
        for step in steps {
            migrator.registerMigration("v\(step.version)") { db in
                try db.execute(sql: step.sql)
                try db.execute(sql: "PRAGMA application_id = \(FileSchema.applicationID); PRAGMA user_version = \(step.version)")
            }
        }
        try migrator.migrate(writer)
    }
}
