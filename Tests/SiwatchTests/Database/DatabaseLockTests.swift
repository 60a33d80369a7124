// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import SQLiteStore
import Testing

@testable import siwatch

struct DatabaseLockTests {
    private let folder: TemporaryFolder
    private let database: String

    init() throws {
        folder = try TemporaryFolder()
        database = folder.path("siwatch.sqlite")
    }

    @Test func onlyOneHoldsIt() throws {
        let first = try DatabaseLock(database: database)
        #expect(throws: DatabaseLockError.held(database: database)) { try DatabaseLock(database: database) }
        first.release()
        let second = try DatabaseLock(database: database)
        #expect(throws: DatabaseLockError.held(database: database)) { try DatabaseLock(database: database) }
        second.release()
    }

    @Test func databasesDoNotShareIt() throws {
        let one = try DatabaseLock(database: folder.path("one.sqlite"))
        let two = try DatabaseLock(database: folder.path("two.sqlite"))
        one.release()
        two.release()
    }

    @Test func noOtherFileIsTouched() throws {
        let lock = try DatabaseLock(database: database)
        defer { lock.release() }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["siwatch.sqlite.lock"])
        let mode = try FileManager.default.attributesOfItem(atPath: folder.path("siwatch.sqlite.lock"))[.posixPermissions] as? Int
        #expect(mode == 0o660)
    }

    @Test func anotherProcessIsKeptOutUntilThisOneEnds() async throws {
        // flock(1) takes the same lock. It writes a line when it has the lock, and holds it until its end.
        let lock = ["flock", "--nonblock", "--no-fork", database + ".lock"]
        let holder = try ChildProcess.found(lock + ["sh", "-c", "echo locked; exec sleep 60"])
        #expect(await holder.line(containing: "locked") != nil)

        #expect(throws: DatabaseLockError.held(database: database)) { try DatabaseLock(database: database) }
        await holder.end(by: SIGKILL)
        try DatabaseLock(database: database).release()
    }

    @Test func aFileThatCannotBeLockedIsNamed() throws {
        let error = #expect(throws: DatabaseLockError.self) { try DatabaseLock(database: folder.path("none/siwatch.sqlite")) }
        #expect(error == .unavailable(file: folder.path("none/siwatch.sqlite.lock"), reason: "No such file or directory"))
    }

    @Test func aLinkOfAnotherUserIsNotFollowed() throws {
        try FileManager.default.createSymbolicLink(atPath: folder.path("siwatch.sqlite.lock"), withDestinationPath: folder.path("target"))
        #expect(throws: DatabaseLockError.self) { try DatabaseLock(database: database) }
        #expect(!FileManager.default.fileExists(atPath: folder.path("target")))
    }

    /// A link to the database, to its folder, and to a file that does not exist yet.
    @Test func aSymbolicLinkLeadsToTheSameLock() throws {
        let database = DatabaseFile(following: self.database).path
        let files = FileManager.default
        try files.createSymbolicLink(atPath: folder.path("link.sqlite"), withDestinationPath: "siwatch.sqlite")
        try files.createSymbolicLink(atPath: folder.path("folder"), withDestinationPath: folder.path)
        for _ in 1...2 {
            for name in ["link.sqlite", "folder/siwatch.sqlite", "folder/link.sqlite"] {
                #expect(DatabaseFile(following: folder.path(name)).path == database)
            }
            try Data().write(to: URL(filePath: database))
        }
        var configuration = Configuration()
        configuration.database.path = folder.path("link.sqlite")
        let lock = try DatabaseLock(database: database)
        defer { lock.release() }
        #expect(throws: DatabaseLockError.held(database: database)) { try configuration.namedDatabase().lock() }
    }

    @Test func aDatabaseOfTwoNamesIsRefused() throws {
        let other = folder.path("other.sqlite")
        try Data().write(to: URL(filePath: database))
        try FileManager.default.linkItem(atPath: database, toPath: other)
        for name in [database, other] {
            #expect(throws: DatabaseLockError.severalNames(database: name, count: 2)) { try DatabaseLock(database: name) }
            let location = DatabaseLocation.file(DatabaseFile(path: name))
            let obstacles = location.obstacles(besideKey: folder.path("siwatch.key"))
            #expect(obstacles == ["database.path: \(DatabaseLockError.severalNames(database: name, count: 2))"])
        }
        try FileManager.default.removeItem(atPath: other)
        try DatabaseLock(database: database).release()
        #expect(DatabaseFile(path: database).obstacles.isEmpty)
    }
}
