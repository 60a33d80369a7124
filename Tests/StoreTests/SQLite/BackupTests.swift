// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// A copy of the file while everything runs, and a new name for an app while nothing runs.
@Suite struct BackupTests {
    @Test func isWholeAndItsOwnersAlone() async throws {
        let file = try FileUnderTest()
        try await file.store.signIn(token: "r")
        let copy = try TemporaryFile()
        // A backend with an open transaction and an uncommitted row.
        let backend = try OpenTransaction(.immediate, at: file.file.path)
        let reader = try SQLiteStore.openForReading(DatabaseFile(path: file.file.path))
        try await reader.backUp(to: copy.path)
        try reader.close()
        try backend.end()

        #expect(try FileManager.default.attributesOfItem(atPath: copy.path)[.posixPermissions] as? Int == 0o600)
        #expect(try DatabaseFile(path: copy.path).inspect() == .siwatch(version: Schema.steps.newest))
        let restored = try FileUnderTest(copy)
        #expect(try await restored.isIntact)
        #expect(try await restored.store.column("SELECT state FROM user_state") == ["authorized"])
        #expect(try await restored.store.claimCredentials(at: .start + .days(2)).count == 1)
    }

    /// A disk may change what was written to it.
    @Test func aDamagedCopyIsFound() async throws {
        let file = try FileUnderTest()
        for number in 1...200 { try await file.store.receive(Array("notification \(number)".utf8)) }
        let copy = try TemporaryFile()
        try await file.sqlite.backUp(to: copy.path)
        try SQLiteStore.verify(copy: copy.path)
        #expect(try copy.contents().keys.sorted() == ["siwatch.sqlite"], "the look leaves nothing behind")
        var bytes = try Data(contentsOf: copy.url)
        bytes.replaceSubrange(bytes.count - 4096..<bytes.count, with: Data(repeating: 0xff, count: 4096))
        try bytes.write(to: copy.url)
        #expect(throws: BackupError.self) { try SQLiteStore.verify(copy: copy.path) }
    }

    @Test func neverTakesThePlaceOfAnother() async throws {
        let file = try FileUnderTest()
        let copy = try TemporaryFile()
        try Data("mine".utf8).write(to: URL(filePath: copy.path))
        await #expect(throws: BackupError.exists(path: copy.path)) { try await file.sqlite.backUp(to: copy.path) }
        #expect(try Data(contentsOf: URL(filePath: copy.path)) == Data("mine".utf8))
        await #expect(throws: BackupError.unwritable(path: "/nowhere/copy", reason: "No such file or directory")) {
            try await file.sqlite.backUp(to: "/nowhere/copy")
        }
    }

    /// A run that was cut short leaves its draft. A run that is at work holds a lock on it.
    @Test func aDraftThatIsLeftGivesWayAndOneAtWorkDoesNot() async throws {
        let file = try FileUnderTest()
        let copy = try TemporaryFile()
        let draft = URL(filePath: SQLiteStore.draft(of: copy.path))
        try Data("half".utf8).write(to: draft)
        try await file.sqlite.backUp(to: copy.path)
        try SQLiteStore.verify(copy: copy.path)
        #expect(try copy.contents().keys.sorted() == ["siwatch.sqlite"])

        let other = try TemporaryFile()
        let otherDraft = SQLiteStore.draft(of: other.path)
        let descriptor = open(otherDraft, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        try #require(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        await #expect(throws: BackupError.exists(path: otherDraft)) { try await file.sqlite.backUp(to: other.path) }
        #expect(FileManager.default.fileExists(atPath: otherDraft) && !FileManager.default.fileExists(atPath: other.path))
    }

    @Test func anAppHasItsNewNameEverywhere() async throws {
        let file = try FileUnderTest()
        try await file.store.signIn(token: "r")
        try await file.store.notify(.consentRevoked, at: .start + .minutes(1))
        try await file.sqlite.renameApp("example", to: "new")
        #expect(try await file.store.column("SELECT app FROM user_state") == ["new"])
        #expect(try await file.store.column("SELECT DISTINCT app FROM notification_log") == ["new"])
        #expect(try await file.store.column("SELECT DISTINCT app FROM credential_change") == ["new"])
        await #expect(throws: AppRenameError.unknown("example", known: ["new", "other"])) {
            try await file.sqlite.renameApp("example", to: "newer")
        }
        await #expect(throws: AppRenameError.taken("other")) { try await file.sqlite.renameApp("new", to: "other") }

        // The configuration must agree.
        let reopened = try SQLiteStore.open(DatabaseFile(path: file.file.path))
        #expect(throws: StoreOpenError.self) { try reopened.register([AppClients(name: "example", clientIDs: ["app", "web"])]) }
        try reopened.register([AppClients(name: "new", clientIDs: ["app", "web"])])
        try reopened.close()
    }
}
