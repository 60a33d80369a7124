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

    private func write(_ text: String, to path: String, mode: mode_t = 0o600) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
        try #require(chmod(path, mode) == 0)
    }

    @Test func readsWhatItCreated() throws {
        try inTemporaryFolder { path in
            let created = try KeyRing.create(at: path)
            let sealed = try created.seal([1, 2, 3], named: "one")
            #expect(try KeyRing(contentsOf: path).open(sealed, named: "one") == [1, 2, 3])

            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            let folder = URL(filePath: path).deletingLastPathComponent().path
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["siwatch.key"], "no draft is left")
        }
    }

    @Test func neverReplacesAFile() throws {
        try inTemporaryFolder { path in
            let text = line(of: .generate())
            try write(text, to: path)
            #expect(throws: KeyFileError.exists(path: path)) { try KeyRing.create(at: path) }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        }
    }

    @Test func saysWhyItCannotCreate() {
        let path = "/proc/nowhere/siwatch.key"
        #expect(throws: KeyFileError.unwritable(path: path, reason: "No such file or directory")) { try KeyRing.create(at: path) }
    }

    @Test func saysWhatIsMissing() {
        let path = "/proc/nowhere/siwatch.key"
        #expect(throws: KeyFileError.missing(path: path)) { try KeyRing(contentsOf: path) }
    }

    @Test(arguments: [0o604, 0o602, 0o601, 0o620, 0o644, 0o666, 0o777] as [mode_t])
    func refusesAFileThatIsOpenToOthers(mode: mode_t) throws {
        try inTemporaryFolder { path in
            try write(line(of: .generate()), to: path, mode: mode)
            #expect(throws: KeyFileError.exposed(path: path, mode: mode)) { try KeyRing(contentsOf: path) }
        }
    }

    @Test(arguments: [0o600, 0o400, 0o640, 0o440] as [mode_t])
    func acceptsAFileOfItsOwnerAndItsGroup(mode: mode_t) throws {
        try inTemporaryFolder { path in
            try write(line(of: .generate()), to: path, mode: mode)
            #expect(try KeyRing(contentsOf: path).keyIDs.count == 1)
        }
    }

    @Test func refusesWhatIsNoFile() throws {
        try inTemporaryFolder { path in
            try #require(mkfifo(path, 0o600) == 0)
            #expect(throws: KeyFileError.unreadable(path: path, reason: "not a regular file")) { try KeyRing(contentsOf: path) }
        }
    }

    @Test func refusesALongFileAndABinaryOne() throws {
        try inTemporaryFolder { path in
            try write(String(repeating: "#\n", count: 32_769), to: path)
            #expect(throws: KeyFileError.unreadable(path: path, reason: "too long to be a key file")) { try KeyRing(contentsOf: path) }
            try Data([0x23, 0xff, 0xfe]).write(to: URL(filePath: path))
            try #require(chmod(path, 0o600) == 0)
            #expect(throws: KeyFileError.unreadable(path: path, reason: "not UTF-8")) { try KeyRing(contentsOf: path) }
        }
    }

    @Test func namesTheLineAndNotTheKey() throws {
        try inTemporaryFolder { path in
            try write("# comment\nsiwatch-sealing-key-1:c2VjcmV0\n", to: path)
            let error = #expect(throws: KeyFileError.self) { try KeyRing(contentsOf: path) }
            #expect(error == .malformed(path: path, .malformed(line: 2)))
            #expect(error.map { "\($0)" }?.contains("c2VjcmV0") == false)
        }
    }
}
