// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables
import DaemonHarness
import Foundation
import Testing

@testable import SQLiteStore

/// A look at a file before SQLite opens it.
@Suite(.timeLimit(.minutes(1))) struct InspectionTests {
    /// As a process closes any descriptor of a file, the kernel drops all its locks on it.
    @Test func aLookDropsNoLockOfThisProcess() async throws {
        let file = try FileUnderTest()
        _ = try await file.store.count("credential")
        #expect(try DatabaseFile(path: file.file.path).inspect(isInUse: true) == .siwatch(version: Schema.steps.newest))
        // SQLite's bytes of a reader: https://www.sqlite.org/src/file/src/os.h
        let script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)"
        let other = try ChildProcess(URL(filePath: "/usr/bin/env"), ["python3", "-c", script, file.file.path])
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
        #expect(try DatabaseFile(path: "\(link)/siwatch.sqlite").inspect() == .siwatch(version: Schema.steps.newest))
    }
}
