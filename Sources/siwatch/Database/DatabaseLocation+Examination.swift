// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import PostgresStore
import SQLiteStore

extension DatabaseLocation {
    /// Why the database cannot be written, one sentence each. Empty if it can be written, or if only a try would tell.
    func obstacles(besideKey keyFile: String) -> [String] {
        guard let file else { return [] }
        // With a key there may have been a database, and a new one in its place would hide that.
        let isLost = file.isEmptyFile && FileManager.default.fileExists(atPath: keyFile)
        let loss = "\(file.path) is empty, and the sealing key is there: restore a backup, or remove the file if there never was a database"
        return (file.obstacles + (isLost ? [loss] : [])).map { "\(place): \($0)" }
    }

    /// Why backends cannot insert; nil if they can.
    func insertObstacle(in store: any CredentialStore) async throws -> String? {
        if let file, let obstacle = Self.insertObstacle(at: file.path) { return obstacle }
        return try await store.insertObstacle()?.printable
    }

    var insertWeakness: String? { file.flatMap { HostFile($0.path)?.groupWeakness } }

    /// What the system tells of a file without opening it: closing it would end all locks of SQLite in this process.
    private static func insertObstacle(at path: String) -> String? {
        if let obstacle = HostFile.obstacles(toDatabase: path, isEmpty: false, isOurs: true).first { return obstacle }
        if DiskSpace(at: path.folder)?.isFull == true { return "\(StoreError.fullDisk) \(path) is full" }
        return HostFile(path)?.groupObstacle
    }

    /// Whether a siwatch works alone on the database. On a server none does.
    var isLocked: Bool { file.map { DatabaseLock.isHeld(database: $0.path) } ?? false }

    /// The process that works alone on the database. Nil if none does, or if the kernel does not tell.
    var lockHolder: String? { file.flatMap { KernelLock.siwatch.holder(ofDatabase: $0.path) }?.description.printable }

    var space: DiskSpace? { file.flatMap { DiskSpace(at: $0.path.folder) } }

    /// When a siwatch that works alone on the database began. On a server none does.
    var lockedAt: Timestamp? { file.flatMap { DatabaseLock.lastWritten($0.path + ".lock") } }

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
        return http.clients.isEmpty || HostFile(file.path)?.isOpenToMembers == true
    }

    var absence: String {
        file?.isEmptyFile == true
            ? "an empty file, which some program left; siwatch migrate creates the database in its place"
            : "not there yet; siwatch migrate creates it"
    }

    /// What keeps siwatch from working on a server, and what an operator should know, one sentence each. A file has only its obstacles.
    func examineServer(clockSkew: Duration) throws -> (obstacles: [String], warnings: [String]) {
        guard case .server(let address) = self else { return ([], []) }
        let found = try PostgresStore.examine(address, clock: .system, clockSkew: clockSkew)
        return (found.obstacles.map { "\(place): \($0)" }, found.warnings.map { "\(place): \($0)" })
    }

    var userInPlaceOfRoot: String? { file.flatMap { HostFile.userInPlaceOfRoot(at: $0.path) } }
}

extension DatabaseFile {
    var obstacles: [String] { HostFile.obstacles(toDatabase: path, isEmpty: isEmptyFile, isOurs: hasOurMark) }
}

typealias UnusableFile = DatabaseFile.Unusable
