// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import Foundation
import Testing

@Suite struct KeyFileTests {
    private func inTemporaryFolder(_ body: (_ path: String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.appending(path: "siwatch.key").path)
    }

    @Test func readsWhatItCreated() throws {
        try inTemporaryFolder { path in
            let created = try KeyRing.create(at: path)
            let sealed = try created.seal([1, 2, 3], named: "one")
            #expect(try KeyRing(parsing: String(contentsOfFile: path, encoding: .utf8)).open(sealed, named: "one") == [1, 2, 3])

            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            let folder = URL(filePath: path).deletingLastPathComponent().path
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["siwatch.key"], "no draft is left")
        }
    }

    @Test func neverReplacesAFile() throws {
        try inTemporaryFolder { path in
            let text = line(of: .generate())
            try Data(text.utf8).write(to: URL(filePath: path))
            #expect(throws: KeyFileError.exists(path: path)) { try KeyRing.create(at: path) }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        }
    }

    @Test func saysWhyItCannotCreate() {
        let path = "/proc/nowhere/siwatch.key"
        #expect(throws: KeyFileError.unwritable(path: path, reason: "No such file or directory")) { try KeyRing.create(at: path) }
    }
}
