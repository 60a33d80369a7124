// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import PostgresStore
import SQLiteStore

/// What status and check find of a database.
extension DatabaseLocation {
    /// Why the database cannot be written, one sentence each. Empty if it can be written, or if only a try would tell.
    ///
    /// - Parameter keyFile: of the sealing keys.
    func obstacles(besideKey keyFile: String) -> [String] {
        guard let file else { return [] }
        // With a key there may have been a database, and a new one in its place would hide that.
        let isLost = file.isEmptyFile && FileManager.default.fileExists(atPath: keyFile)
        let loss = "\(file.path) is empty, and the sealing key is there: restore a backup, or remove the file if there never was a database"
        return (file.obstacles + (isLost ? [loss] : [])).map { "\(place): \($0)" }
    }

    /// Why backends cannot insert, with harmless characters only; nil if they can.
    ///
    /// - Parameter store: this database, open.
    /// - Throws: `StoreError` if the database does not answer.
    func insertObstacle(in store: any CredentialStore) async throws -> String? {
        if let file, let obstacle = Self.insertObstacle(at: file.path) { return obstacle }
        return try await store.insertObstacle()?.printable
    }

    /// Why backends can insert only while siwatch runs; nil if nothing is wrong.
    var insertWeakness: String? { file.flatMap { GroupAccess(path: $0.path).weakness } }

    /// What the system tells of a file without opening it: closing it would end all locks of SQLite in this process.
    private static func insertObstacle(at path: String) -> String? {
        if let obstacle = FileObstacles(path: path, isEmpty: false, isOurs: true).all.first { return obstacle }
        let folder = URL(filePath: path).deletingLastPathComponent().path
        if DiskSpace(at: folder)?.isFull == true { return "\(StoreError.fullDisk) \(path) is full" }
        return GroupAccess(path: path).obstacle
    }

    /// Whether a siwatch works alone on the database. On a server none does.
    var isLocked: Bool { file.map { DatabaseLock.isHeld(database: $0.path) } ?? false }

    /// The process that works alone on the database, with harmless characters only. Nil if none does, or if the kernel does not tell.
    var lockHolder: String? { file.flatMap { KernelLock.siwatch.holder(ofDatabase: $0.path) }?.description.printable }

    /// The room on the disk of the database. A server does not tell.
    var space: DiskSpace? { file.flatMap { DiskSpace(at: URL(filePath: $0.path).deletingLastPathComponent().path) } }

    /// When a siwatch that works alone on the database began. On a server none does.
    var lockedAt: Timestamp? { file.flatMap { DatabaseLock.lastTaken(database: $0.path) } }

    /// Whether this SQLite can lose committed pages when other processes checkpoint.
    var hasWALResetBug: Bool { file != nil && SQLiteLibrary.hasWALResetBug }

    /// That somebody has cut off the memory that the processes on a file share; nil if not. SQLite makes it of blocks of 32 KB.
    var cutMemory: String? {
        guard let file, let status = stat(notFollowing: "\(file.path)-shm"), status.st_size == 0 || status.st_size % 32_768 != 0
        else { return nil }
        return
            "\(file.path)-shm was cut off, to \(Int(status.st_size).counted("byte")), by a user who may write it: a siwatch at work ends "
            + "by SIGBUS, and its next start mends the file"
    }

    /// Whether backends may open the file: none comes over HTTP, or one is in the file's group.
    func isOpenedByBackends(with http: Configuration.HTTP) -> Bool {
        guard let file else { return false }
        return http.clients.isEmpty || GroupAccess(path: file.path).hasMembers
    }

    /// The message for a database that does not exist.
    var absence: String {
        file?.isEmptyFile == true
            ? "an empty file, which some program left; siwatch migrate creates the database in its place"
            : "not there yet; siwatch migrate creates it"
    }

    /// Examines a server without changing anything. A file has only its obstacles.
    ///
    /// - Returns: what keeps siwatch from working there, and what an operator should know, one sentence each.
    func examineServer(clockSkew: Duration) throws -> (obstacles: [String], warnings: [String]) {
        guard case .server(let address) = self else { return ([], []) }
        let found = try PostgresStore.examine(address, clock: .system, clockSkew: clockSkew)
        return (found.obstacles.map { "\(place): \($0)" }, found.warnings.map { "\(place): \($0)" })
    }

    /// The owner of the file, if root runs this in that user's place. Root's rights say nothing of the owner's.
    var userInPlaceOfRoot: String? { file.flatMap { FileObstacles($0).userInPlaceOfRoot } }
}

extension DatabaseFile {
    /// Why the file cannot be written: one sentence each, with the command that corrects it. Empty if it can be written.
    var obstacles: [String] { FileObstacles(self).all }
}

extension FileObstacles {
    fileprivate init(_ file: DatabaseFile) {
        self.init(path: file.path, isEmpty: file.isEmptyFile, isOurs: file.hasOurMark)
    }
}

/// Why siwatch cannot use a file.
typealias UnusableFile = DatabaseFile.Unusable

extension UnusableFile {
    var isUnreadable: Bool {
        if case .unreadable = self { true } else { false }
    }
}
