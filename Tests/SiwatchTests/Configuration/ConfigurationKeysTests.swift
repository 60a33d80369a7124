// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import siwatch

struct ConfigurationKeysTests {
    /// Any base64 of the right length will do here. The user of the key judges its content.
    let pem = """
        -----BEGIN PRIVATE KEY-----
        \(String(repeating: "MIGTAgEA", count: 8))
        \(String(repeating: "c2VjcmV0", count: 8))
        -----END PRIVATE KEY-----
        """

    private func configuration(_ folder: TemporaryFolder, keys: [String]) throws -> Configuration {
        var text = ConfigurationTests.app.replacing("AuthKey_ABC123DEFG.p8", with: keys[0])
        for (index, key) in keys.enumerated().dropFirst() {
            text += "[[app.key]]\nid = \"KEY000000\(index)\"\nfile = \"\(key)\"\n"
        }
        return try Configuration(parsing: text, from: folder.path("siwatch.toml"))
    }

    private func write(_ text: String, to name: String, in folder: TemporaryFolder, mode: mode_t = 0o600) throws {
        try folder.write(text, to: name)
        try #require(chmod(folder.path(name), mode) == 0)
    }

    @Test func keysAreReadInTheirOrder() throws {
        let folder = try TemporaryFolder()
        try write(pem, to: "one.p8", in: folder)
        try write(pem.replacing("\n", with: "\r\n") + "\r\n", to: "two.p8", in: folder, mode: 0o440)
        let keys = try configuration(folder, keys: ["two.p8", "one.p8"]).readKeys()
        #expect(keys.keys.sorted() == ["example"])
        #expect(keys["example"]?.map(\.id) == ["ABC123DEFG", "KEY0000001"])
        #expect(keys["example"]?[1].pem == Secret(pem))
    }

    @Test func everyKeyThatCannotBeUsedIsNamedAndNoneQuoted() throws {
        let folder = try TemporaryFolder()
        try write(pem, to: "good.p8", in: folder)
        try write("", to: "empty.p8", in: folder)
        try write(pem.replacing("PRIVATE", with: "PUBLIC"), to: "public.p8", in: folder)
        try write(pem.replacing("PRIVATE", with: "EC PRIVATE"), to: "old.p8", in: folder)
        try write(String(pem.dropLast(30)), to: "cut.p8", in: folder)
        try write(pem + "\n" + pem, to: "two.p8", in: folder)
        try write(String(repeating: pem, count: 200), to: "long.p8", in: folder)
        let names = ["none.p8", "good.p8", "empty.p8", "public.p8", "old.p8", "cut.p8", "two.p8", "long.p8"]

        let error = try #require(throws: InvalidConfiguration.self) { try configuration(folder, keys: names).readKeys() }
        let format = "is not a private key as Apple hands it out (PEM, PKCS#8: -----BEGIN PRIVATE KEY-----)"
        #expect(
            error.mistakes == [
                .at("app[0].key[0].file", folder.path("none.p8") + " cannot be read: No such file or directory"),
                .at("app[0].key[2].file", folder.path("empty.p8") + " " + format),
                .at("app[0].key[3].file", folder.path("public.p8") + " " + format),
                .at("app[0].key[4].file", folder.path("old.p8") + " " + format),
                .at("app[0].key[5].file", folder.path("cut.p8") + " " + format),
                .at("app[0].key[6].file", folder.path("two.p8") + " " + format),
                .at("app[0].key[7].file", folder.path("long.p8") + " is longer than 16384 bytes"),
            ]
        )
        #expect(!error.description.contains("c2VjcmV0"))
    }

    /// The sealing key's file has the same rule.
    @Test(arguments: [0o604, 0o602, 0o601, 0o620, 0o644, 0o666] as [mode_t])
    func aKeyThatOthersCanReadIsRefused(mode: mode_t) throws {
        let folder = try TemporaryFolder()
        try write(pem, to: "open.p8", in: folder, mode: mode)
        let error = try #require(throws: InvalidConfiguration.self) { try configuration(folder, keys: ["open.p8"]).readKeys() }
        let path = folder.path("open.p8")
        let mend = "sudo -u \(NSUserName()) chmod 600 \(path)"
        #expect(
            error.mistakes == [
                .at(
                    "app[0].key[0].file",
                    "\(path) has the mode 0\(String(mode, radix: 8)), which lets others read it or change it; \(mend) closes it"
                )
            ]
        )
    }
}
