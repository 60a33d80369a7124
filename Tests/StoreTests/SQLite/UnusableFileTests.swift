// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// siwatch leaves a file that is foreign or damaged unchanged: it writes no byte to it, and no file beside it.
@Suite struct UnusableFileTests {
    private static let text = "This is a letter to my aunt, and no database at all. "

    enum Find: CaseIterable {
        case garbage, shortText, foreign, foreignWithLog, onlyPragma, truncated, flippedPage, newer, withoutTables

        var expected: String {
            switch self {
            case .garbage, .shortText: "foreign: is not an SQLite database"
            case .foreign, .foreignWithLog: "foreign: is an SQLite database of another program"
            case .onlyPragma: "foreign: is an SQLite database without tables"
            case .truncated, .flippedPage: "damaged: is damaged"
            case .newer: "newer: 99"
            case .withoutTables: "damaged: lacks the table"
            }
        }

        func make(at file: TemporaryFile) throws {
            switch self {
            case .garbage: try Data(String(repeating: text, count: 200).utf8).write(to: file.url)
            case .shortText: try Data(text.utf8).write(to: file.url)
            case .foreign: try file.run("CREATE TABLE other (id INTEGER); PRAGMA user_version = 1")
            case .foreignWithLog:
                // Another program leaves such a file when it dies while it writes.
                let original = try TemporaryFile()
                defer { original.remove() }
                let pool = try DatabasePool(path: original.path)
                try pool.write { db in try db.execute(sql: "CREATE TABLE other (id INTEGER)") }
                for (name, bytes) in try original.contents() { try bytes.write(to: file.folder.appending(path: name)) }
                try pool.close()
            case .onlyPragma: try DatabasePool(path: file.path).close()
            case .truncated:
                try Self.makeOurs(at: file)
                let whole = try Data(contentsOf: file.url)
                try whole.prefix(whole.count / 2).write(to: file.url)
            case .flippedPage:
                try Self.makeOurs(at: file)
                var bytes = try Data(contentsOf: file.url)
                for index in 100..<1000 { bytes[index] ^= 0xff }
                try bytes.write(to: file.url)
            case .newer:
                try Self.makeOurs(at: file)
                try file.run("PRAGMA user_version = 99")
            case .withoutTables:
                try Self.makeOurs(at: file)
                try file.run("DROP VIEW credential_state; DROP VIEW user_state; DROP TABLE credential")
            }
        }

        private static func makeOurs(at file: TemporaryFile) throws { try SQLiteStore.open(DatabaseFile(path: file.path)).close() }
    }

    private func describe(_ error: DatabaseFile.Unusable) -> String {
        switch error {
        case .foreign(let text): "foreign: \(text)"
        case .damaged(let text): "damaged: \(text)"
        case .newer(let version, _): "newer: \(version)"
        case .outdated(_, let version): "outdated: \(version)"
        case .departed: "departed"
        case .unreadable(let text): "unreadable: \(text)"
        }
    }

    @Test(arguments: Find.allCases) func isLeftAsItIs(_ find: Find) throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        try find.make(at: file)
        let before = try file.contents()
        for open in [{ _ = try $0.inspect() }, { _ = try SQLiteStore.open($0) }] as [(DatabaseFile) throws -> Void] {
            let error = try #require(throws: DatabaseFile.Unusable.self) { try open(DatabaseFile(path: file.path)) }
            let description = describe(error).replacing("\(file.path) ", with: "")
            #expect(description.hasPrefix(find.expected))
            #expect(try file.contents() == before)
        }
    }

    @Test func aFolderIsUnreadable() throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        let error = try #require(throws: DatabaseFile.Unusable.self) { try DatabaseFile(path: file.folder.path).inspect() }
        #expect(describe(error).hasPrefix("unreadable: "))
    }

    @Test func nothingIsNothing() throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        #expect(try DatabaseFile(path: file.path).inspect() == .none)
        #expect(try file.contents().isEmpty)
    }

    @Test func anEmptyFileIsAsGoodAsNone() throws {
        let file = try TemporaryFile()
        try Data().write(to: file.url)
        #expect(try DatabaseFile(path: file.path).inspect() == .none)
        #expect(try file.contents() == ["siwatch.sqlite": Data()])
        _ = try StoreUnderTest(file)
    }

    @Test func aPathMayHoldAnyCharacter() throws {
        let file = try TemporaryFile()
        defer { file.remove() }
        let path = file.folder.path + "/a b%20?mode=memory#\u{fc}.sqlite"
        try SQLiteStore.open(DatabaseFile(path: path)).close()
        #expect(try DatabaseFile(path: path).inspect() == .siwatch(version: FrozenDatabases.versions.upperBound))
    }

    @Test func ourOwnIsLookedAtWithoutAChange() throws {
        let file = try TemporaryFile.migrated()
        defer { file.remove() }
        let before = try file.contents()
        #expect(before.keys.sorted() == ["siwatch.sqlite"])
        #expect(try DatabaseFile(path: file.path).inspect() == .siwatch(version: FrozenDatabases.versions.upperBound))
        #expect(try file.contents() == before)
    }
}

/// Backends are members of a group, so the group may write the file and its neighbours.
@Suite struct FileModeTests {
    private func mode(_ path: String) throws -> Int? { try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int }

    @Test func aNewFileIsTheGroups() throws {
        let store = try StoreUnderTest(TemporaryFile())
        for suffix in ["", "-wal", "-shm"] { #expect(try mode(store.file.path + suffix) == 0o660) }
    }

    /// The maker of the database has chosen who may write it.
    @Test func aDatabaseThatIsThereKeepsItsMode() throws {
        let temporary = try TemporaryFile.migrated()
        #expect(chmod(temporary.path, 0o600) == 0)
        let store = try StoreUnderTest(temporary)
        for suffix in ["", "-wal", "-shm"] { #expect(try mode(store.file.path + suffix) == 0o600) }
    }

    /// A backend leaves such a file when it opens the name before there is a database.
    @Test(arguments: [0o644, 0o600]) func anEmptyFileIsTakenOver(before: Int) throws {
        let temporary = try TemporaryFile()
        #expect(FileManager.default.createFile(atPath: temporary.path, contents: nil, attributes: [.posixPermissions: before]))
        let early = try DatabaseQueue(path: temporary.path)
        _ = try early.read { db in try Int.fetchOne(db, sql: "PRAGMA user_version") }
        let store = try StoreUnderTest(temporary)
        for suffix in ["", "-wal", "-shm"] { #expect(try mode(store.file.path + suffix) == 0o660) }
        #expect(try early.read { db in try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM grant_queue") } == 0, "an open one sees the tables")
    }

    /// As root, because no mode stops root.
    @Test(.enabled(if: geteuid() == 0)) func anotherUsersEmptyFileGivesWay() throws {
        let temporary = try TemporaryFile()
        try Data().write(to: temporary.url)
        #expect(chown(temporary.path, 65_534, 65_534) == 0)
        let store = try StoreUnderTest(temporary)
        #expect(try mode(store.file.path) == 0o660)
        #expect(try FileManager.default.attributesOfItem(atPath: store.file.path)[.ownerAccountID] as? UInt32 == geteuid())
    }

    @Test func aFolderThatIsNotThereIsASentence() throws {
        #expect {
            try SQLiteStore.open(DatabaseFile(path: "/nowhere/siwatch.sqlite"))
        } throws: { error in
            "\(error)" == "/nowhere/siwatch.sqlite cannot be created: No such file or directory"
        }
    }
}

/// A look at a file before SQLite opens it.
@Suite(.eachStore, .on(.file), .timeLimit(.minutes(1))) struct InspectionTests: ConformanceSuite {
    /// As a process closes any descriptor of a file, the kernel drops all its locks on it.
    @Test func aLookDropsNoLockOfThisProcess() async throws {
        _ = try await store.count("credential")
        #expect(try DatabaseFile(path: store.file.path).inspect(isInUse: true) == .siwatch(version: FileSchema.steps.newest))
        // SQLite's bytes of a reader: https://www.sqlite.org/src/file/src/os.h
        let script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)"
        let other = try ChildProcess(URL(filePath: "/usr/bin/env"), ["python3", "-c", script, store.file.path])
        #expect(await other.exit() == 1 && other.output.contains { $0.hasPrefix("BlockingIOError") }, "\(other.output)")
    }

    @Test func theFolderMayBeALink() throws {
        let file = try TemporaryFile.migrated()
        let link = file.folder.path + "-link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: file.folder.path)
        defer {
            try? FileManager.default.removeItem(atPath: link)
            file.remove()
        }
        #expect(try DatabaseFile(path: "\(link)/siwatch.sqlite").inspect() == .siwatch(version: FileSchema.steps.newest))
    }
}
