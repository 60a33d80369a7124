// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

@testable import SQLiteStore

/// Backends are members of a group, so the file and its neighbours are the group's to write.
@Suite struct FileModeTests {
    private func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test func aNewFileIsTheGroups() throws {
        let file = try FileUnderTest()
        for suffix in ["", "-wal", "-shm"] { #expect(try mode(file.file.path + suffix) == 0o660) }
    }

    /// Whoever made the file has said who may write it.
    @Test func aFileThatIsThereKeepsItsMode() throws {
        let temporary = try TemporaryFile()
        #expect(FileManager.default.createFile(atPath: temporary.path, contents: nil, attributes: [.posixPermissions: 0o600]))
        let file = try FileUnderTest(temporary)
        #expect(try mode(file.file.path) == 0o600)
    }

    @Test func aFolderThatIsNotThereIsASentence() throws {
        #expect {
            try SQLiteStore.open(DatabaseFile(path: "/nowhere/siwatch.sqlite"))
        } throws: { error in
            "\(error)" == "/nowhere/siwatch.sqlite cannot be created: No such file or directory"
        }
    }
}
