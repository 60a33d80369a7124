// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// Backends are members of a group, so the group may write the file and its neighbours.
@Suite struct FileModeTests {
    private func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test func aNewFileIsTheGroups() throws {
        let file = try FileUnderTest(TemporaryFile())
        for suffix in ["", "-wal", "-shm"] { #expect(try mode(file.file.path + suffix) == 0o660) }
    }

    /// The maker of the database has chosen who may write it.
    @Test func aDatabaseThatIsThereKeepsItsMode() throws {
        let temporary = try TemporaryFile()
        try SQLiteStore.open(DatabaseFile(path: temporary.path)).close()
        #expect(chmod(temporary.path, 0o600) == 0)
        let file = try FileUnderTest(temporary)
        for suffix in ["", "-wal", "-shm"] { #expect(try mode(file.file.path + suffix) == 0o600) }
    }

    /// A backend leaves such a file when it opens the name before there is a database.
    @Test(arguments: [0o644, 0o600])
    func anEmptyFileIsTakenOver(before: Int) throws {
        let temporary = try TemporaryFile()
        #expect(FileManager.default.createFile(atPath: temporary.path, contents: nil, attributes: [.posixPermissions: before]))
        let early = try DatabaseQueue(path: temporary.path)
        _ = try early.read { db in try Int.fetchOne(db, sql: "PRAGMA user_version") }
        let file = try FileUnderTest(temporary)
        for suffix in ["", "-wal", "-shm"] { #expect(try mode(file.file.path + suffix) == 0o660) }
        #expect(try early.read { db in try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM grant_queue") } == 0, "an open one sees the tables")
    }

    /// As root, because no mode stops root.
    @Test(.enabled(if: geteuid() == 0)) func anotherUsersEmptyFileGivesWay() throws {
        let temporary = try TemporaryFile()
        try Data().write(to: temporary.url)
        #expect(chown(temporary.path, 65_534, 65_534) == 0)
        let file = try FileUnderTest(temporary)
        #expect(try mode(file.file.path) == 0o660)
        #expect(try FileManager.default.attributesOfItem(atPath: file.file.path)[.ownerAccountID] as? UInt32 == geteuid())
    }

    @Test func aFolderThatIsNotThereIsASentence() throws {
        #expect {
            try SQLiteStore.open(DatabaseFile(path: "/nowhere/siwatch.sqlite"))
        } throws: { error in
            "\(error)" == "/nowhere/siwatch.sqlite cannot be created: No such file or directory"
        }
    }
}
