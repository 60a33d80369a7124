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
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func ring() throws -> KeyRing? {
        let text = ConfigurationTests.app + "[encryption]\nkey_file = \"secret\"\n"
        return try Configuration(parsing: text, from: folder.path("siwatch.toml")).readKeyRing()
    }

    private func read() throws(TextFileError) -> String { try TextFile.read(folder.path("secret"), limit: 100, isSecret: true) }

    @Test(arguments: [
        "one two", "one two\n", "one two\r\n", "one two\r", "\u{feff}one two", "\u{feff}\r\none two\r\n\r\n", "\n\none two\n\n",
    ])
    func whatAnEditorAddsIsLeftOut(_ text: String) throws {
        try folder.write(text, to: "secret")
        #expect(try read() == "one two")
    }

    /// A password may begin or end with a blank, and nobody would find out why it is wrong.
    @Test func whatASecretMayHoldStays() throws {
        try folder.write(" p\u{feff}\tä \r\n", to: "secret")
        #expect(try read() == " p\u{feff}\tä ")
        try folder.write("one\r\n\r\ntwo\r\n", to: "secret")
        #expect(try read() == "one\n\ntwo", "the lines of a file are those of its author")
    }

    /// With one of each end of a line, in a secret and around it.
    @Test(arguments: ["\n", "\r\n"], ["", "\u{feff}"]) func everySecretTakesWhatAnEditorAdds(_ end: String, _ mark: String) throws {
        let key = KeyRing.generate()
        try folder.write(mark + key.text.replacing("\n", with: end) + end, to: "secret")
        #expect(try ring()?.keyIDs == key.keyIDs)

        let token = String(repeating: "t", count: 40)
        try folder.write("\(mark)\(token) \(end)\(end)", to: "secret")
        var configuration = ConfigurationTests.least
        configuration.http.clients = [Configuration.HTTP.Client(name: "backend", tokenFiles: [folder.path("secret")])]
        #expect(try configuration.readTokens() == ["backend": [Secret(token)]])

        let database = ConfigurationTests.app + "[database]\nurl = \"postgresql://siwatch@localhost/app\"\npassword_file = \"secret\"\n"
        let server = try Configuration(parsing: database, from: folder.path("siwatch.toml"))
        try folder.write("\(mark)pass word\(end)\(end)", to: "secret")
        _ = try server.namedDatabase()
        try folder.write("pass\(end)word", to: "secret")
        let failure = #expect(throws: CommandFailure.self) { try server.namedDatabase() }
        let path = folder.path("secret")
        #expect(failure?.messages == ["database.password_file: \(path) has several lines, and a password is one"])
    }

    @Test func aMissingKeyIsNoMistake() throws {
        #expect(try ring() == nil)
    }

    /// The sealing key, and Apple's.
    @Test(arguments: [0o604, 0o602, 0o601, 0o620, 0o644, 0o666, 0o777])
    func aKeyThatIsOpenToOthersIsRefused(mode: Int) throws {
        try folder.write(KeyRing.generate().text, to: "secret", mode: mode)
        let failure = #expect(throws: CommandFailure.self) { try ring() }
        let path = folder.path("secret")
        let words = "\(path) has the mode 0\(String(mode, radix: 8)), which lets others read it or change it"
        let sentence = "\(words); sudo -u \(NSUserName()) chmod 600 \(path) closes it"
        #expect(failure?.code.rawValue == 78 && failure?.messages == ["encryption.key_file: \(sentence)"])
        var configuration = ConfigurationTests.least
        configuration.apps[0].keys[0].file = path
        let error = #expect(throws: InvalidConfiguration.self) { try configuration.readKeys() }
        #expect(error?.mistakes == [.at("app[0].key[0].file", sentence)])
    }

    @Test(arguments: [0o600, 0o400, 0o640, 0o440]) func aKeyOfItsOwnerAndItsGroupIsTaken(mode: Int) throws {
        try folder.write(KeyRing.generate().text, to: "secret", mode: mode)
        #expect(try ring()?.keyIDs.count == 1)
    }

    @Test func whatIsNoFileIsRefused() throws {
        try #require(mkfifo(folder.path("secret"), 0o600) == 0)
        #expect(throws: TextFileError.unusable("cannot be read: not a regular file")) { try read() }
    }

    @Test func aLongFileAndABinaryOneAreRefused() throws {
        try folder.write(String(repeating: "#\n", count: 32_769), to: "secret")
        let long = #expect(throws: CommandFailure.self) { try ring() }
        #expect(long?.messages == ["encryption.key_file: \(folder.path("secret")) is longer than 65536 bytes"])
        try Data([0x23, 0xff, 0xfe]).write(to: URL(filePath: folder.path("secret")))
        try #require(chmod(folder.path("secret"), 0o600) == 0)
        let binary = #expect(throws: CommandFailure.self) { try ring() }
        #expect(binary?.messages == ["encryption.key_file: \(folder.path("secret")) is not UTF-8: save it as plain text"])
    }

    @Test func theLineIsNamedAndNotTheKey() throws {
        try folder.write("# comment\r\nsiwatch-sealing-key-1:c2VjcmV0\r\n", to: "secret")
        let failure = #expect(throws: CommandFailure.self) { try ring() }
        let text = failure?.description ?? ""
        #expect(text.hasPrefix("encryption.key_file: \(folder.path("secret")): line 2 is not a sealing key"), "\(text)")
        #expect(!text.contains("c2VjcmV0"))
    }
}
