// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// A copy of the file while everything runs, and a new name for an app while nothing runs.
@Suite(.eachStore, .on(.file)) struct BackupTests: ConformanceSuite {
    @Test func isWholeAndItsOwnersAlone() async throws {
        try await store.signIn(token: "r")
        let copy = try TemporaryFile()
        // A backend with an open transaction and an uncommitted row.
        let backend = try OpenTransaction(.immediate, at: store.file.path)
        let reader = try SQLiteStore.openForReading(DatabaseFile(path: store.file.path))
        try await reader.backUp(to: copy.path)
        try reader.close()
        try backend.end()

        #expect(try FileManager.default.attributesOfItem(atPath: copy.path)[.posixPermissions] as? Int == 0o600)
        #expect(try DatabaseFile(path: copy.path).inspect() == .siwatch(version: FileSchema.steps.newest))
        let restored = try StoreUnderTest(copy)
        #expect(try await restored.isIntact)
        #expect(try await restored.column("SELECT state FROM user_state") == ["authorized"])
        #expect(try await restored.claimCredentials(at: .start + .days(2)).count == 1)
    }

    /// A disk may change what was written to it.
    @Test func aDamagedCopyIsFound() async throws {
        for number in 1...200 { try await store.receive(Array("notification \(number)".utf8)) }
        let copy = try TemporaryFile()
        try await store.sqlite.backUp(to: copy.path)
        try SQLiteStore.verify(copy: copy.path)
        #expect(try copy.contents().keys.sorted() == ["siwatch.sqlite"], "the look leaves nothing behind")
        var bytes = try Data(contentsOf: copy.url)
        bytes.replaceSubrange(bytes.count - 4096..<bytes.count, with: Data(repeating: 0xff, count: 4096))
        try bytes.write(to: copy.url)
        #expect(throws: BackupError.self) { try SQLiteStore.verify(copy: copy.path) }
    }

    @Test func neverTakesThePlaceOfAnother() async throws {
        let copy = try TemporaryFile()
        try Data("mine".utf8).write(to: URL(filePath: copy.path))
        await #expect(throws: BackupError.exists(path: copy.path)) { try await store.sqlite.backUp(to: copy.path) }
        #expect(try Data(contentsOf: URL(filePath: copy.path)) == Data("mine".utf8))
        await #expect(throws: BackupError.unwritable(path: "/nowhere/copy", reason: "No such file or directory")) {
            try await store.sqlite.backUp(to: "/nowhere/copy")
        }
    }

    /// A run that was cut short leaves its draft. A run that is at work holds a lock on it.
    @Test func aDraftThatIsLeftGivesWayAndOneAtWorkDoesNot() async throws {
        let copy = try TemporaryFile()
        let draft = URL(filePath: SQLiteStore.draft(of: copy.path))
        try Data("half".utf8).write(to: draft)
        try await store.sqlite.backUp(to: copy.path)
        try SQLiteStore.verify(copy: copy.path)
        #expect(try copy.contents().keys.sorted() == ["siwatch.sqlite"])

        let other = try TemporaryFile()
        let otherDraft = SQLiteStore.draft(of: other.path)
        let descriptor = open(otherDraft, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        try #require(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        await #expect(throws: BackupError.exists(path: otherDraft)) { try await store.sqlite.backUp(to: other.path) }
        #expect(FileManager.default.fileExists(atPath: otherDraft) && !FileManager.default.fileExists(atPath: other.path))
    }

    @Test func aRenamedAppIsConfiguredByItsNewName() async throws {
        try await store.sqlite.renameApp("example", to: "new")
        let reopened = try SQLiteStore.open(DatabaseFile(path: store.file.path))
        #expect(throws: StoreOpenError.self) { try reopened.register([AppClients(name: "example", clientIDs: ["app", "web"])]) }
        try reopened.register([AppClients(name: "new", clientIDs: ["app", "web"])])
        try reopened.close()
    }
}
