// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import Foundation
import Testing

@Suite struct KeyRingTests {
    @Test func opensASecretByItsNameOnly() throws {
        let ring = KeyRing.generate()
        let sealed = try ring.seal([1, 2, 3], named: "one")
        #expect(try ring.open(sealed, named: "one") == [1, 2, 3])
        #expect(throws: SealingError.damaged) { try ring.open(sealed, named: "two") }
    }

    @Test func refusesALaterFormat() throws {
        let ring = KeyRing.generate()
        var sealed = try ring.seal([1, 2, 3], named: "one")
        sealed[0] = 2
        #expect(throws: SealingError.unknownVersion(2)) { try ring.open(sealed, named: "one") }
    }

    @Test func neverPrintsItsKeys() throws {
        let ring = KeyRing.generate()
        let secret = line(of: ring).dropFirst(22)
        var dumped = ""
        dump(ring, to: &dumped)
        for text in ["\(ring)", String(reflecting: ring), dumped] { #expect(!text.contains(secret.prefix(8))) }
        #expect("\(ring)" == "[key ring \(ring.keyIDs[0])]")
    }
}

@Suite struct KeyTextTests {
    let key = "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    let other = "siwatch-sealing-key-1://79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eA="

    @Test func skipsCommentsAndEmptyLines() throws {
        let ring = try KeyRing(parsing: "# the key\n\n\(key)\n#\(other)\n")
        #expect(ring.keyIDs.count == 1)
    }

    @Test func theFirstKeySeals() throws {
        #expect(try KeyRing(parsing: "\(key)\n\(other)").keyIDs == KeyRing(parsing: "\(other)\n\(key)").keyIDs.reversed())
    }

    @Test(arguments: ["", "\n\n", "# nothing\n"]) func needsAKey(text: String) {
        #expect(throws: KeyTextError.empty) { try KeyRing(parsing: text) }
    }

    /// Editors and secret stores add blanks, and end lines in their own way.
    @Test(arguments: ["\n", "\r\n", "\r", " ", "  \n\n\t"]) func takesKeysWithAnyWhiteSpaceAround(_ space: String) throws {
        let plain = try KeyRing(parsing: "\(key)\n\(other)\n")
        #expect(try KeyRing(parsing: "\(space)\(key)\(space)\(other)\(space)").keyIDs == plain.keyIDs)
        guard space.contains(where: \.isNewline) else { return }
        #expect(try KeyRing(parsing: "# the keys\(space)\(key)\(space)# \(key)\(space)\(other)").keyIDs == plain.keyIDs)
    }

    /// With its lines joined, the comment at the beginning of the file hides the key. Nobody should think that it is lost.
    @Test func saysThatAKeyMayStandBehindAComment() {
        let text = KeyRing.generate().text.replacing("\n", with: " ")
        let error = #expect(throws: KeyTextError.empty) { try KeyRing(parsing: text) }
        #expect(error.map { "\($0)" }?.contains("where a line break was lost, the key behind it is part of it") == true)
    }

    @Test func refusesTheSameKeyTwice() {
        #expect(throws: KeyTextError.repeated(line: 3)) { try KeyRing(parsing: "\(key)\n\(other)\n\(key)") }
    }

    @Test(arguments: [
        "siwatch-sealing-key-1:", "siwatch-sealing-key-2:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\u{feff}",
        "siwatch-sealing-key-1: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=",  // a bit that no encoder sets
        "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==",  // 31 bytes
        "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g",  // 33 bytes
        "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBka-xwdHh8=",
    ])
    func refusesALineThatIsNoKey(line: String) {
        #expect(throws: KeyTextError.malformed(line: 2)) { try KeyRing(parsing: "# a comment\n\(line)\n") }
        #expect(!"\(KeyTextError.malformed(line: 2))".contains("AAEC"))
    }
}

@Suite struct KeyFileTests {
    private func inTemporaryFolder(_ body: (_ path: String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.appending(path: "siwatch.key").path)
    }

    @Test func readsWhatItCreated() throws {
        try inTemporaryFolder { path in
            // A kill has left it.
            try Data("half".utf8).write(to: URL(filePath: "\(path).siwatch-draft"))
            let created = try KeyRing.create(at: path)
            let sealed = try created.seal([1, 2, 3], named: "one")
            #expect(try KeyRing(parsing: String(contentsOfFile: path, encoding: .utf8)).open(sealed, named: "one") == [1, 2, 3])

            #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
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
