// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore
import Crypto
import DaemonHarness
import Foundation
import Testing

@testable import siwatch

struct ConfigurationKeysTests {
    let key = P256.Signing.PrivateKey()
    var pem: String { key.pemRepresentation }

    private func configuration(_ folder: TemporaryFolder, keys: [String]) throws -> Configuration {
        var text = ConfigurationTests.app.replacing("AuthKey_ABC123DEFG.p8", with: keys[0])
        for (index, key) in keys.enumerated().dropFirst() { text += "[[app.key]]\nid = \"KEY000000\(index)\"\nfile = \"\(key)\"\n" }
        return try Configuration(parsing: text, from: folder.path("siwatch.toml"))
    }

    @Test func keysAreReadInTheirOrder() throws {
        let folder = try TemporaryFolder()
        try folder.write(pem, to: "one.p8")
        try folder.write(pem.replacing("\n", with: "\r\n") + "\r\n", to: "two.p8", mode: 0o440)
        let keys = try configuration(folder, keys: ["two.p8", "one.p8"]).readKeys()
        #expect(keys.keys.sorted() == ["example"])
        #expect(keys["example"]?.map(\.id) == ["ABC123DEFG", "KEY0000001"])
        #expect(try keys["example"]?[1] == ClientSecretKey(id: "KEY0000001", text: Secret(pem)))
    }

    @Test func everyKeyThatCannotBeUsedIsNamedAndNoneQuoted() throws {
        let folder = try TemporaryFolder()
        let texts: KeyValuePairs = [
            "good": pem, "empty": "", "public": pem.replacing("PRIVATE", with: "PUBLIC"), "cut": String(pem.dropLast(60)),
            "old": P384.Signing.PrivateKey().pemRepresentation, "two": pem + "\n" + pem, "long": String(repeating: pem, count: 200),
        ]
        for (name, text) in texts { try folder.write(text, to: "\(name).p8") }
        let names = ["none", "good", "empty", "public", "old", "cut", "two", "long"].map { "\($0).p8" }

        let error = try #require(throws: InvalidConfiguration.self) { try configuration(folder, keys: names).readKeys() }
        func issued(_ index: Int) -> String { "; give the AuthKey_KEY000000\(index).p8 file as Apple issued it" }
        let form = "is not a private key in PEM, base64 or DER"
        let kind = "is not a private key on P-256: it is damaged, encrypted or of another kind"
        #expect(
            error.mistakes == [
                .at("app[0].key[0].file", folder.path("none.p8") + " cannot be read: No such file or directory"),
                .at("app[0].key[2].file", folder.path("empty.p8") + ": key KEY0000002 \(form)" + issued(2)),
                .at("app[0].key[3].file", folder.path("public.p8") + ": key KEY0000003 is not a private key" + issued(3)),
                .at("app[0].key[4].file", folder.path("old.p8") + ": key KEY0000004 \(kind)"),
                .at("app[0].key[5].file", folder.path("cut.p8") + ": key KEY0000005 \(kind)"),
                .at("app[0].key[6].file", folder.path("two.p8") + ": the file of key KEY0000006 holds several private keys" + issued(6)),
                .at("app[0].key[7].file", folder.path("long.p8") + " is longer than 16384 bytes"),
            ]
        )
        for line in pem.split(separator: "\n").dropFirst().dropLast() { #expect(!error.description.contains(line)) }
    }

    /// OpenSSL's own forms, and those of editors, secret stores and environment variables.
    @Test func aKeyIsReadInEveryFormThatOpenSSLReads() async throws {
        let folder = try TemporaryFolder()
        try folder.write(pem, to: "apple.p8")
        let (file, output) = (folder.path("apple.p8"), folder.path("output"))
        func openssl(_ arguments: String...) async throws -> Data {
            let process = try ChildProcess.found(["openssl"] + arguments + ["-in", file, "-out", output])
            #expect(await process.exit() == 0, "\(process.output)")
            return try Data(contentsOf: URL(filePath: output))
        }
        let der = try await openssl("pkcs8", "-topk8", "-nocrypt", "-outform", "DER")
        let old = try await openssl("ec", "-outform", "DER")
        let oldText = String(decoding: try await openssl("ec"), as: UTF8.self)
        try #require(der.count > 60 && old.count > 60 && oldText.contains("BEGIN EC PRIVATE KEY"))
        let base64 = der.base64EncodedString()
        let long = der.base64EncodedString(options: [.lineLength76Characters, .endLineWithLineFeed])
        func block(_ body: String) -> String { "-----BEGIN PRIVATE KEY-----\n\(body)\n-----END PRIVATE KEY-----\n" }
        let texts = [
            pem.replacing("\n", with: "\r\n"), "\u{feff}\(pem)\n\n", pem.replacing("\n", with: "  \n"), pem.replacing("\n", with: " "),
            pem.replacing("\n", with: ""), block(base64), block(long), "\"\(pem.replacing("\n", with: "\\n"))\\n\"",
            "Bag Attributes\n    friendlyName: AuthKey\nKey Attributes: <No Attributes>\n\(pem)\n", base64, long + "\n", oldText,
            "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n\(oldText)",
        ]
        let same = try ClientSecretKey(id: "ABC123DEFG", text: Secret(pem))
        for (index, bytes) in ([der, old] + texts.map { Data($0.utf8) }).enumerated() {
            let path = folder.path("form\(index).p8")
            try bytes.write(to: URL(filePath: path))
            try #require(chmod(path, 0o600) == 0)
            #expect(try configuration(folder, keys: ["form\(index).p8"]).readKeys()["example"] == [same], "form \(index)")
            #expect(throws: Never.self, "form \(index)") { try AppleKeyFile(path, id: "ABC123DEFG") }
        }
    }
}
