// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import DaemonHarness
import Foundation
import Testing

/// The sealing key turns over, is taken away, and is lost.
@Suite(.timeLimit(.minutes(10))) struct SealingKeyCommandTests {
    private var key: String { site.folder.path("siwatch.key") }
    private var keyText: String { get throws { try String(contentsOfFile: key, encoding: .utf8) } }

    private var ring: KeyRing { get throws { try KeyRing(parsing: keyText) } }

    private func rotate(_ folder: WatchedFolder) async throws -> String {
        try #require(try await folder.json("secret rotate --json")["key_id"] as? String)
    }

    private static let secret = "siwatch-sealing-key-1:"

    @Test(.site) func rotatingTwiceAddsTwoKeysAboveTheOthers() async throws {
        try site.folder.write("\r\n# ours\r\n\(try keyText.replacing("\n", with: "\r\n"))", to: "siwatch.key", mode: 0o640)
        let before = try keyText
        try await site.folder.expect("secret rotate", 0, "Copy the file now", "sudo systemctl reload siwatch", not: Self.secret)
        let id = try await rotate(site.folder)
        #expect(try site.folder.mode(of: "siwatch.key") == 0o640)
        let keyIDs = try ring.keyIDs
        #expect(keyIDs.count == 3 && keyIDs[0] == id)
        let lines = try keyText.components(separatedBy: "\r\n")
        #expect(before.components(separatedBy: "\r\n").allSatisfy { lines.contains($0) })
    }

    @Test(.site) func aFileThatHoldsNoKeysIsNotRotated() async throws {
        let good = try keyText
        try site.folder.write(String(good.dropLast(9)), to: "siwatch.key")
        for command in ["rotate", "retire 00000000", "abandon --yes"] {
            try await site.folder.expect("secret \(command)", 78, "is not a sealing key", not: Self.secret + "A")
        }
        #expect(try keyText == String(good.dropLast(9)))
        try FileManager.default.removeItem(atPath: key)
        try await site.folder.expect("secret rotate", 78, "is not there")
    }

    /// Docker mounts a secret as a file, and no other file can take its place.
    @Test(.site, .enabled(if: Servant.canMount)) func aMountedKeyFileGetsItsLineByHand() async throws {
        let before = try keyText
        let process = try Servant.start("secret rotate", in: site.folder, mounting: MountTests.bound("ro"), at: key)
        let words = ["\n\(Self.secret)", "cannot be changed from here", "put this line above the others"]
        examine((await process.exit(), process.output), "secret rotate", 1, words, at: #_sourceLocation)
        #expect(try keyText == before)
    }

    @Test(.site, .enabled(if: Servant.isRoot && Servant.canBeRun)) func aKeyFileOfRootGetsItsLineByHand() async throws {
        try Servant.take(over: site.folder)
        try #require(chown(key, 0, Servant.user) == 0 && chmod(key, 0o440) == 0)
        let before = try keyText
        try await Servant.expect("secret rotate", in: site.folder, 1, "\n\(Self.secret)", "Operation not permitted")
        #expect(try keyText == before)
    }

    /// A full disk changes nothing, and prints no key.
    @Test(.site, .enabled(if: Servant.canMount)) func aFullDiskLeavesTheKeyFile() async throws {
        let commands = """
            memory=${0%/*}/memory
            mkdir "$memory"
            mount -t tmpfs -o size=8k tmpfs "$memory"
            cp -p "$0" "$memory/siwatch.key"
            dd if=/dev/zero of="$memory/fill" bs=4k 2> /dev/null || true
            """
        try site.folder.edit("[database]", "[encryption]\nkey_file = \"memory/siwatch.key\"\n[database]")
        let process = try Servant.start("secret rotate", in: site.folder, mounting: commands, at: key)
        examine((await process.exit(), process.output), "secret rotate", 1, ["cannot be written"], not: [Self.secret], at: #_sourceLocation)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func noKeyIsRetiredWhileAnythingStandsUnderIt() async throws {
        let old = try ring.keyIDs[0]
        try await site.folder.expect("secret retire \(old)", 1, "is the first, which seals")
        try await site.folder.expect("secret retire 00000000", 1, "holds no key 00000000; it holds \(old)")
        let new = try await rotate(site.folder)
        // The fingerprint key.
        try await site.folder.expect("secret retire \(old)", 1, "1 sealed value in the tables would be lost without the key \(old)")
        // A newer key that sealed nothing goes, once another stands above it.
        _ = try await rotate(site.folder)
        try await site.folder.expect("secret retire \(new)", 0, "no longer holds the key \(new)")
        #expect(try ring.keyIDs.count == 2)
    }

    /// SQL of bytes that name a key and do not open.
    private func unreadable(under id: String) -> String {
        let hex = "01\(id)" + String(repeating: "00", count: 60)
        return site.schema == nil ? "x'\(hex)'" : "'\\x\(hex)'::bytea"
    }

    /// A disk has damaged it, or somebody who can write the tables has put it there.
    @Test(.site(onEach: SiteDatabase.allCases)) func aValueThatDoesNotOpenKeepsNoKey() async throws {
        let old = try ring.keyIDs[0]
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(2)) }
        let new = try await rotate(site.folder)
        let user = "(SELECT MIN(user_id) FROM credential)"
        try await site.backend.execute("UPDATE credential SET sealed_token = \(unreadable(under: old)) WHERE user_id = \(user)")
        try await site.folder.expect("secret retire \(old)", 1, "2 sealed values in the tables would be lost without the key \(old)")
        try await site.daemon { _ in
            try await site.backend.until("SELECT value FROM counter WHERE name = 'sealed.\(new)'", is: 2)
        }
        try await site.folder.expect("status", says: "0 values under it, 1 that did not open")
        try await site.folder.expect("secret retire \(old)", 0, "1 value under it did not open, and had been lost before")
        #expect(try ring.keyIDs == [new])
        try await site.folder.expect("run --once", 0)
    }

    /// siwatch dies before the housekeeping has counted, or a settlement comes late.
    @Test(.site(onEach: SiteDatabase.allCases)) func whatANotedKeyHasSealedIsMissedAtTheStart() async throws {
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        let id = "0a0b0c0d"
        try await site.backend.execute("INSERT INTO counter (name, value) VALUES ('seals.\(id)', 0)")
        try await site.backend.execute("UPDATE credential SET sealed_token = \(unreadable(under: id))")
        try await site.folder.expect("run", 78, "sealed under key \(id), which the key file does not hold")
        // With the key at hand it did not open.
        try await site.backend.execute("INSERT INTO counter (name, value) VALUES ('sealed_lost.\(id)', 1)")
        try await site.folder.expect("run --once", 0)
    }

    @Test(.daemon(onEach: SiteDatabase.allCases, ["refresh": "interval = \"1s\""]))
    func aReloadSealsUnderTheNewKeyAndOpensTheOldTokens() async throws {
        try await site.settle(try await site.apple.signIn(2))
        let new = try await rotate(site.folder)
        daemon.signal(SIGHUP)
        #expect(await daemon.line(containing: #""event":"sealing_keys_loaded""#)?.contains(new) == true)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM counter WHERE name = 'seals.\(new)'") == 1, "noted before it seals")
        try await site.settle(try await site.apple.signIn(1))
        let id = site.schema == nil ? "lower(hex(substr(sealed_token, 2, 4)))" : "encode(substr(sealed_token, 2, 4), 'hex')"
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE \(id) = '\(new)'") >= 1)
        try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 3)
        #expect(!daemon.output.contains { $0.contains("token_unreadable") })

        // A file without the key under which siwatch seals is not taken over.
        let other = try await CommandCall.siwatch(["secret", "new", "sealing-key"]).output.joined(separator: "\n")
        try site.folder.write(other, to: "siwatch.key")
        daemon.signal(SIGHUP)
        #expect(await daemon.line(containing: #""event":"reload_failed""#)?.contains("encryption.key_file") == true)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aLostKeyCostsTheTokensAndSignsNobodyOut() async throws {
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(2))
            try await site.folder.expect("secret abandon --yes", 69, "at work on")
        }
        try await site.folder.expect("secret abandon --yes", 1, "opens this database, so no token was given up")
        try FileManager.default.removeItem(atPath: key)
        try await site.folder.expect("secret abandon", 64, "nothing was given up")
        try await site.folder.expect("secret abandon --yes", 0, "2 tokens were given up", "is new: copy it now", not: Self.secret)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 0)
        try await site.daemon { daemon in
            try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: 2)
            try await site.settle(try await site.apple.signIn(1))
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE due_at IS NOT NULL AND sealed_token IS NOT NULL", is: 1)
            #expect(!daemon.output.contains { $0.contains("token_unreadable") })
        }
    }

    @Test(.site) func theSealsOfASweepAreCountedAndThoseOfARetiredKeyForgotten() async throws {
        let old = try ring.keyIDs[0]
        func seals(_ id: String) async throws -> Int {
            try await site.backend.int("SELECT COALESCE(SUM(value), 0) FROM counter WHERE name = 'seals.\(id)'")
        }
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        let new = try await rotate(site.folder)
        try await site.folder.expect("run --once", 0)
        #expect(try await seals(new) == 2, "the token and the fingerprint key")
        #expect(try await seals(old) > 0)
        try await site.folder.expect("secret retire \(old)", 0)
        try await site.folder.expect("run --once", 0)
        #expect(try await seals(new) == 2)
        #expect(try await seals(old) == 0)
    }

    /// A key is lost while tokens still stand under it. Another has sealed the fingerprint key.
    @Test(.site) func aKeyThatTokensNeedIsMissedAtTheStart() async throws {
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        // The count is old: nothing stands under that key any more.
        try await site.backend.execute("INSERT INTO counter (name, value) VALUES ('sealed.0a0b0c0d', 1)")
        try await site.folder.expect("run --once", 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM counter WHERE name = 'sealed.0a0b0c0d'") == 0)

        try await site.backend.execute("INSERT INTO counter (name, value) VALUES ('sealed.0a0b0c0d', 1)")
        let token = "010a0b0c0d" + String(repeating: "00", count: 60)
        try await site.backend.execute("UPDATE credential SET sealed_token = x'\(token)'")
        let words = "does not open this database: sealed under key 0a0b0c0d, which the key file does not hold"
        for command in ["run", "doctor --before-start"] { try await site.folder.expect(command, 78, words) }
        try await site.folder.expect("secret abandon --yes", 0, "1 token was given up")
        try await site.folder.expect("run --once", 0)
    }

    /// Another row may be damaged in the same way, and a backup has all.
    @Test(.site) func aDamagedFingerprintKeyIsRestoredFromABackup() async throws {
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        try await site.backend.execute("UPDATE secret SET sealed = substr(sealed, 1, length(sealed) - 1)")
        try await site.folder.expect("secret abandon --yes", 1, "the row token-fingerprint of the table secret is damaged", "from a backup")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 1)
    }

    /// Each has to open what another seals.
    @Test(.site(on: .server)) func replicasSealUnderAKeyThatAllHold() async throws {
        let (second, third) = (try site.folder.copy(), try site.folder.copy())
        defer { for folder in [second, third] { folder.remove() } }
        let first = try await site.folder.siwatch("secret", "public-key").output
        let new = try await rotate(second)
        func sealing(under id: String, is count: Int) async throws {
            try await site.backend.until("SELECT COUNT(*) FROM replica WHERE replica LIKE '%\"sealingKeyID\":\"\(id)\"%'", is: count)
        }
        try await site.daemon { elder in
            try await second.withDaemon { _ in
                let old = try ring.keyIDs[0]
                try await sealing(under: old, is: 2)
                let keys = try await second.siwatch("secret", "public-key").output
                #expect(keys.count == 2 && keys[0] == first[0], "a backend seals to a key that both hold")
                try await site.folder.expect("status", says: "lags: it lacks the sealing key \(new)")
                try site.folder.write(try String(contentsOfFile: second.path("siwatch.key"), encoding: .utf8), to: "siwatch.key")
                try await site.folder.expect("secret retire \(old)", 69, "does not seal under the key \(new) yet")
                elder.signal(SIGHUP)
                try await sealing(under: new, is: 2)
                try await site.folder.expect("status", says: "health", not: "lags")
                try await third.expect("run", 69, "seals under the key \(new), which encryption.key_file lacks here")
            }
        }
    }
}
