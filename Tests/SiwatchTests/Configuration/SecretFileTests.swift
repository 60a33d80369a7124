// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialSealing
import Foundation
import Testing

@testable import siwatch

/// The one reader of files that hold secrets, and the sealing key as it reads it.
struct SecretFileTests {
    private func write(_ text: String, mode: mode_t = 0o600, in folder: TemporaryFolder) throws {
        try folder.write(text, to: "secret")
        try #require(chmod(folder.path("secret"), mode) == 0)
    }

    private func ring(in folder: TemporaryFolder) throws -> KeyRing? {
        let text = ConfigurationTests.app + "[encryption]\nkey_file = \"secret\"\n"
        return try Configuration(parsing: text, from: folder.path("siwatch.toml")).readKeyRing()
    }

    private func read(_ folder: TemporaryFolder) throws(TextFileError) -> String {
        try TextFile.read(folder.path("secret"), limit: 100, isSecret: true)
    }

    @Test(arguments: [
        "one two", "one two\n", "one two\r\n", "one two\r", "\u{feff}one two", "\u{feff}\r\none two\r\n\r\n", "\n\none two\n\n",
    ])
    func whatAnEditorAddsIsLeftOut(_ text: String) throws {
        let folder = try TemporaryFolder()
        try write(text, in: folder)
        #expect(try read(folder) == "one two")
    }

    /// A password may begin or end with a blank, and nobody would find out why it is wrong.
    @Test func whatASecretMayHoldStays() throws {
        let folder = try TemporaryFolder()
        try write(" p\u{feff}\tä \r\n", in: folder)
        #expect(try read(folder) == " p\u{feff}\tä ")
        try write("one\r\n\r\ntwo\r\n", in: folder)
        #expect(try read(folder) == "one\n\ntwo", "the lines of a file are those of its author")
    }

    /// With one of each end of a line, in a secret and around it.
    @Test(arguments: ["\n", "\r\n"], ["", "\u{feff}"]) func everySecretTakesWhatAnEditorAdds(_ end: String, _ mark: String) throws {
        let folder = try TemporaryFolder()
        let key = KeyRing.generate()
        try write(mark + key.text.replacing("\n", with: end) + end, in: folder)
        #expect(try ring(in: folder)?.keyIDs == key.keyIDs)

        let token = String(repeating: "t", count: 40)
        try write("\(mark)\(token) \(end)\(end)", in: folder)
        var configuration = ConfigurationTests.least
        configuration.http.clients = [Configuration.HTTP.Client(name: "backend", tokenFiles: [folder.path("secret")])]
        #expect(try configuration.readTokens() == ["backend": [Secret(token)]])

        let database = ConfigurationTests.app + "[database]\nurl = \"postgresql://siwatch@localhost/app\"\npassword_file = \"secret\"\n"
        try write("\(mark)pass word\(end)\(end)", in: folder)
        _ = try Configuration(parsing: database, from: folder.path("siwatch.toml")).namedDatabase()
        try write("pass\(end)word", in: folder)
        let failure = #expect(throws: CommandFailure.self) {
            try Configuration(parsing: database, from: folder.path("siwatch.toml")).namedDatabase()
        }
        let path = folder.path("secret")
        #expect(failure?.messages == ["database.password_file: \(path) has several lines, and a password is one"])
    }

    @Test func aMissingKeyIsNoMistake() throws {
        #expect(try ring(in: TemporaryFolder()) == nil)
    }

    /// The sealing key, and Apple's.
    @Test(arguments: [0o604, 0o602, 0o601, 0o620, 0o644, 0o666, 0o777] as [mode_t])
    func aKeyThatIsOpenToOthersIsRefused(mode: mode_t) throws {
        let folder = try TemporaryFolder()
        try write(KeyRing.generate().text, mode: mode, in: folder)
        let failure = #expect(throws: CommandFailure.self) { try ring(in: folder) }
        let path = folder.path("secret")
        let words = "\(path) has the mode 0\(String(mode, radix: 8)), which lets others read it or change it"
        let sentence = "\(words); sudo -u \(NSUserName()) chmod 600 \(path) closes it"
        #expect(failure?.code.rawValue == 78 && failure?.messages == ["encryption.key_file: \(sentence)"])
        var configuration = ConfigurationTests.least
        configuration.apps[0].keys[0].file = path
        let error = #expect(throws: InvalidConfiguration.self) { try configuration.readKeys() }
        #expect(error?.mistakes == [.at("app[0].key[0].file", sentence)])
    }

    @Test(arguments: [0o600, 0o400, 0o640, 0o440] as [mode_t]) func aKeyOfItsOwnerAndItsGroupIsTaken(mode: mode_t) throws {
        let folder = try TemporaryFolder()
        try write(KeyRing.generate().text, mode: mode, in: folder)
        #expect(try ring(in: folder)?.keyIDs.count == 1)
    }

    @Test func whatIsNoFileIsRefused() throws {
        let folder = try TemporaryFolder()
        try #require(mkfifo(folder.path("secret"), 0o600) == 0)
        #expect(throws: TextFileError.unusable("cannot be read: not a regular file")) { try read(folder) }
    }

    @Test func aLongFileAndABinaryOneAreRefused() throws {
        let folder = try TemporaryFolder()
        try write(String(repeating: "#\n", count: 32_769), in: folder)
        let long = #expect(throws: CommandFailure.self) { try ring(in: folder) }
        #expect(long?.messages == ["encryption.key_file: \(folder.path("secret")) is longer than 65536 bytes"])
        try Data([0x23, 0xff, 0xfe]).write(to: URL(filePath: folder.path("secret")))
        try #require(chmod(folder.path("secret"), 0o600) == 0)
        let binary = #expect(throws: CommandFailure.self) { try ring(in: folder) }
        #expect(binary?.messages == ["encryption.key_file: \(folder.path("secret")) is not UTF-8: save it as plain text"])
    }

    @Test func theLineIsNamedAndNotTheKey() throws {
        let folder = try TemporaryFolder()
        try write("# comment\r\nsiwatch-sealing-key-1:c2VjcmV0\r\n", in: folder)
        let failure = #expect(throws: CommandFailure.self) { try ring(in: folder) }
        let text = failure?.description ?? ""
        #expect(text.hasPrefix("encryption.key_file: \(folder.path("secret")): line 2 is not a sealing key"), "\(text)")
        #expect(!text.contains("c2VjcmV0"))
    }
}
