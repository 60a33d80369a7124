// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing
import Dispatch
import Foundation
import Testing

/// A sealer whose ring changes while it works.
@Suite struct KeyTurnoverTests {
    let old = KeyRing.generate()
    let new = KeyRing.generate()
    let both: KeyRing
    let fingerprintKey: [UInt8]
    let sealer: CredentialSealer
    let alice = CredentialID(clientID: "com.example.app", userID: "000123.alice")
    let granted = Timestamp(milliseconds: 1_700_000_000_000)
    let token = Secret("r1.refresh-token")

    init() throws {
        both = try KeyRing(parsing: "\(line(of: new))\n\(line(of: old))")
        fingerprintKey = try CredentialSealer.newFingerprintKey(sealedBy: old)
        sealer = try CredentialSealer(ring: old, sealedFingerprintKey: fingerprintKey)
    }

    private func seal() throws -> SealedToken { try sealer.seal(token, for: alice, grantedAt: granted) }

    private func sealingKey() throws -> String? { CredentialSealer.keyID(of: try seal().bytes) }

    @Test func anotherRingSealsUnderItsFirstKeyAndOpensTheOldBytes() throws {
        let (sealed, print) = (try seal(), sealer.fingerprint(of: token))
        sealer.use(both)
        #expect(sealer.keyIDs == both.keyIDs && sealer.sealingKeyID == new.keyIDs[0])
        #expect(try sealingKey() == new.keyIDs[0])
        #expect(try sealer.open(sealed, for: alice, grantedAt: granted) == token)
        #expect(sealer.fingerprint(of: token) == print)
        #expect(sealer.keyIDs(lackingIn: new) == old.keyIDs)
    }

    @Test func bytesAreSealedAnewOnce() throws {
        let sealed = try seal()
        #expect(try sealer.reseal(sealed, for: alice, grantedAt: granted) == nil)
        sealer.use(both)
        let anew = try #require(try sealer.reseal(sealed, for: alice, grantedAt: granted))
        #expect(CredentialSealer.keyID(of: anew.bytes) == new.keyIDs[0])
        #expect(try sealer.reseal(anew, for: alice, grantedAt: granted) == nil)
        let other = CredentialID(clientID: alice.clientID, userID: "000123.bob")
        #expect(throws: SealingError.damaged) { try sealer.reseal(sealed, for: other, grantedAt: granted) }

        let key = try #require(try sealer.reseal(secret: fingerprintKey, named: CredentialSealer.fingerprintKeyName))
        #expect(try sealer.reseal(secret: key, named: CredentialSealer.fingerprintKeyName) == nil)
        // From now on the new key is enough.
        let alone = try CredentialSealer(ring: new, sealedFingerprintKey: key)
        #expect(try alone.open(anew, for: alice, grantedAt: granted) == token)
        #expect(alone.fingerprint(of: token) == sealer.fingerprint(of: token))
    }

    /// A backup from before the rotation opens with a later ring. A later database does not open with an earlier ring, and the error names
    /// the key.
    @Test func aRestoredDatabaseNeedsTheKeysOfItsTime() throws {
        #expect(throws: Never.self) { try CredentialSealer(ring: both, sealedFingerprintKey: fingerprintKey) }
        let later = try CredentialSealer.newFingerprintKey(sealedBy: both)
        let error = #expect(throws: SealingError.unknownKey(id: new.keyIDs[0])) {
            try CredentialSealer(ring: old, sealedFingerprintKey: later)
        }
        #expect(error.map { "\($0)" } == "sealed under key \(new.keyIDs[0]), which the key file does not hold")
    }

    /// Each living replica has to open what another seals.
    @Test func itSealsUnderTheFirstKeyThatAllReplicasHold() throws {
        sealer.use(both)
        sealer.share(with: [both.keyIDs, old.keyIDs])
        #expect(try sealingKey() == old.keyIDs[0])
        #expect(sealer.keyIDs == both.keyIDs)
        // The order of another ring does not matter.
        sealer.share(with: [Array(both.keyIDs.reversed())])
        #expect(try sealingKey() == new.keyIDs[0])
        sealer.share(with: [[]])
        #expect(sealer.sealingKeyID == new.keyIDs[0], "a replica without a common key refuses to run")
        sealer.share(with: [old.keyIDs])
        sealer.use(try KeyRing(parsing: "\(line(of: .generate()))\n\(line(of: old))"))
        #expect(sealer.sealingKeyID == old.keyIDs[0], "another ring forgets no replica")
        sealer.share(with: [])
        #expect(sealer.sealingKeyID == sealer.keyIDs[0])
    }

    /// A backend seals to the first.
    @Test func theFirstPublicKeyIsOfAKeyThatAllReplicasHold() throws {
        let first = sealer.publicKeys[0]
        sealer.use(both)
        let keys = sealer.publicKeys
        #expect(keys.count == 2 && keys[1] == first)
        sealer.share(with: [old.keyIDs])
        #expect(sealer.publicKeys == [first, keys[0]])
    }

    /// A settlement may bring a token that was sealed before the key was retired.
    @Test func aRetiredKeyOpensUntilTheProcessEnds() throws {
        let sealed = try seal()
        sealer.use(both)
        sealer.use(new)
        #expect(sealer.keyIDs == new.keyIDs && sealer.openingKeyIDs == both.keyIDs && sealer.publicKeys.count == 1)
        #expect(try sealer.open(sealed, for: alice, grantedAt: granted) == token)
        #expect(sealer.opens(.token(sealed, of: alice, grantedAt: granted)))
        #expect(!sealer.opens(.token(sealed, of: alice, grantedAt: Timestamp(milliseconds: 1))))
        let names = [CredentialSealer.fingerprintKeyName, "other"]
        #expect(names.map { sealer.opens(.secret(fingerprintKey, named: $0)) } == [true, false])
        sealer.share(with: [new.keyIDs])
        let anew = try #require(try sealer.reseal(sealed, for: alice, grantedAt: granted))
        #expect(CredentialSealer.keyID(of: anew.bytes) == new.keyIDs[0])
    }

    @Test func sealsAreCountedByKey() throws {
        for _ in 1...3 { _ = try seal() }
        sealer.use(both)
        _ = try seal()
        #expect(sealer.takeSealCounts() == [old.keyIDs[0]: 3, new.keyIDs[0]: 1])
        #expect(sealer.takeSealCounts() == [:])
    }

    @Test func noOtherBytesNameAKey() {
        for bytes in [[], [1], [2] + [UInt8](repeating: 0, count: 40)] as [[UInt8]] { #expect(CredentialSealer.keyID(of: bytes) == nil) }
    }

    /// What backends have sealed names the public key.
    @Test func eachKeyHasItsPublicKey() {
        sealer.use(both)
        let ids = both.keyIDs.map { sealer.publicKeyID(of: $0) }
        #expect(Set(ids).count == 2 && !ids.contains(nil) && !ids.contains(new.keyIDs[0]))
        #expect(sealer.publicKeyID(of: "00000000") == nil)
    }
}

@Suite struct KeyFileTextTests {
    let key = KeyRing.generate()
    let other = KeyRing.generate()
    let new = KeyRing.generate()

    /// `K`, `O` and `N` stand for the keys.
    private func text(_ pattern: String) -> String {
        pattern.map { ["K": key, "O": other, "N": new][$0]?.line ?? String($0) }.joined()
    }

    @Test(arguments: [
        ("K", "N\nK"), ("K\n", "N\nK\n"), ("# a\n\n  K # b\nO\n", "# a\n\nN\n  K # b\nO\n"), ("K O", "N\nK O"),
        ("# a\r\nK\r\nO\r\n", "# a\r\nN\r\nK\r\nO\r\n"), ("\u{feff}K\n", "\u{feff}N\nK\n"), ("\u{feff}# a\rK", "\u{feff}# a\rN\rK"),
    ])
    func aNewKeyStandsAboveTheOthers(_ before: String, _ after: String) throws {
        var file = try KeyFileText(text(before))
        try file.add(new)
        #expect(file.text == text(after))
        #expect(file.ring.keyIDs[0] == new.keyIDs[0] && file.ring.keyIDs[1] == key.keyIDs[0])
    }

    @Test(arguments: [
        ("K\nO\n", "K\n"), ("K\nO", "K\n"), ("K O\n# a\n", "K \n# a\n"), ("O K", "K"), ("K\n O # b\n", "K\n # b\n"),
        ("K\r\nO\r\n# a\r\n", "K\r\n# a\r\n"), ("\u{feff}O\nK\n", "\u{feff}K\n"), ("K\n", "K\n"),
    ])
    func aKeyIsTakenOutWithItsLine(_ before: String, _ after: String) throws {
        var file = try KeyFileText(text(before))
        try file.remove(other.keyIDs[0])
        #expect(file.text == text(after))
        #expect(file.ring.keyIDs == key.keyIDs)
    }

    @Test func theOnlyKeyStays() throws {
        var file = try KeyFileText(text("# a\nK\n"))
        #expect(throws: KeyTextError.empty) { try file.remove(key.keyIDs[0]) }
    }

    @Test func aHalfWrittenFileIsRefused() {
        #expect(throws: KeyTextError.malformed(line: 1)) { try KeyFileText(String(text("K").dropLast(9))) }
    }
}

@Suite struct KeyFileChangeTests {
    /// The path of a key file in a folder of its own.
    private func withFile(_ body: (_ path: String, _ folder: String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "siwatch.key").path
        try Data("old".utf8).write(to: URL(filePath: path))
        try body(path, folder.path)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().last == "siwatch.key", "no draft is left")
    }

    private func change(_ path: String, _ body: (String) throws -> String) throws { try KeyFile.change(path, limit: 100, body) }

    @Test(arguments: [0o600, 0o640, 0o400]) func theModeStays(_ mode: Int) throws {
        try withFile { path, _ in
            #expect(chmod(path, mode_t(mode)) == 0)
            try change(path) { $0 + "+new" }
            let found = try String(contentsOfFile: path, encoding: .utf8)
            #expect(found == "old+new")
            #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == mode)
        }
    }

    @Test func severalThatComeAtOnceAllCount() throws {
        try withFile { path, _ in
            DispatchQueue.concurrentPerform(iterations: 16) { _ in try? KeyFile.change(path, limit: 100) { $0 + "x" } }
            let found = try String(contentsOfFile: path, encoding: .utf8)
            #expect(found == "old" + String(repeating: "x", count: 16))
        }
    }

    @Test func aDraftThatAKillLeftGoes() throws {
        try withFile { path, _ in
            try Data("a longer one".utf8).write(to: URL(filePath: "\(path).siwatch-draft"))
            try change(path) { $0 + "+new" }
            let found = try String(contentsOfFile: path, encoding: .utf8)
            #expect(found == "old+new")
        }
    }

    @Test func aThrowLeavesTheFile() throws {
        struct Stop: Error {}
        try withFile { path, _ in
            #expect(throws: Stop.self) { try change(path) { _ in throw Stop() } }
            let found = try String(contentsOfFile: path, encoding: .utf8)
            #expect(found == "old")
        }
    }

    /// Kubernetes mounts secrets as links, and siwatch must not put a file in the place of one.
    @Test func aLinkIsChangedElsewhere() throws {
        try withFile { path, folder in
            let link = folder + "/link"
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
            #expect(throws: KeyFileError.fixed(path: link, reason: "it is a symbolic link")) { try change(link) { $0 + "x" } }
            let found = try String(contentsOfFile: path, encoding: .utf8)
            #expect(found == "old")
        }
    }

    @Test(.enabled(if: getuid() != 0)) func aFolderOfSomebodyElseIsChangedElsewhere() throws {
        try withFile { path, folder in
            #expect(chmod(folder, 0o500) == 0)
            defer { chmod(folder, 0o700) }
            #expect(throws: KeyFileError.fixed(path: path, reason: "Permission denied")) { try change(path) { $0 + "x" } }
            let found = try String(contentsOfFile: path, encoding: .utf8)
            #expect(found == "old")
        }
    }

    @Test func whatIsNoSuchFileIsRefused() throws {
        try withFile { path, folder in
            #expect(throws: KeyFileError.unwritable(path: folder + "/none", reason: "No such file or directory")) {
                try change(folder + "/none") { $0 }
            }
            try Data(count: 101).write(to: URL(filePath: path))
            #expect(throws: KeyFileError.self) { try change(path) { $0 } }
        }
    }
}
