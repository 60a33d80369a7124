// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import CredentialSealing

@Suite struct CredentialSealerTests {
    let ring = KeyRing.generate()
    let alice = CredentialID(clientID: "com.example.app", userID: "000123.alice")
    let granted = Timestamp(milliseconds: 1_700_000_000_000)
    let token = Secret("r1.refresh-token")
    let key: [UInt8]
    let sealer: CredentialSealer
    let sealed: SealedToken

    init() throws {
        key = try CredentialSealer.newFingerprintKey(sealedBy: ring)
        sealer = try CredentialSealer(ring: ring, sealedFingerprintKey: key)
        sealed = try sealer.seal(token, for: alice, grantedAt: granted)
    }

    /// For the life of the database, whatever becomes of the sealing keys. Another database gives another name.
    @Test func aPseudonymIsTheDatabasesOwn() throws {
        let name = sealer.pseudonym(of: alice.userID)
        #expect(try CredentialSealer(ring: ring, sealedFingerprintKey: key).pseudonym(of: alice.userID) == name)
        #expect(name.hasPrefix("forgotten:") && name.utf8.count == 42 && !name.contains("alice"))
        #expect(try newSealer(ring).pseudonym(of: alice.userID) != name)
        #expect(sealer.pseudonym(of: "000123.bob") != name)
    }

    /// The keys of the file may be the same. The key of the database is not, and it stays when the sealing key changes.
    @Test func opensInItsOwnDatabaseOnly() throws {
        #expect(throws: SealingError.damaged) { try newSealer(ring).open(sealed, for: alice, grantedAt: granted) }
        let newer = try KeyRing(parsing: "\(line(of: .generate()))\n\(line(of: ring))")
        #expect(try CredentialSealer(ring: newer, sealedFingerprintKey: key).open(sealed, for: alice, grantedAt: granted) == token)
    }

    /// Each field counts, and so does the database. A change of the sealing key does not.
    @Test func provesTheSigningKeysOfItsOwnDatabase() throws {
        let proved = self.sealer.prove(SigningKeyRecord(keyID: "kid", jwk: "{}", lastSeenAt: granted))
        let newer = try KeyRing(parsing: "\(line(of: .generate()))\n\(line(of: ring))")
        let sealer = try CredentialSealer(ring: newer, sealedFingerprintKey: key)
        #expect(sealer.isProved(proved))
        #expect(try newSealer(ring).isProved(proved) == false, "another database")

        let changes: [(inout SigningKeyRecord) -> Void] = [
            { $0.keyID = "ki" }, { $0.jwk = "d{}" }, { $0.lastSeenAt = $0.lastSeenAt.advanced(by: .milliseconds(1)) }, { $0.proof = [] },
            { $0.proof[31] ^= 1 }, { ($0.keyID, $0.jwk) = ("ki", "d{}") },
        ]
        for change in changes {
            var changed = proved
            change(&changed)
            #expect(!sealer.isProved(changed), "\(changed)")
        }
    }

    @Test func hidesTheTokenAndSealsItDifferentlyEachTime() throws {
        #expect(try sealer.seal(token, for: alice, grantedAt: granted) != sealed)
        #expect(sealed.bytes.count == 1 + 4 + 12 + token.reveal.utf8.count + 16)
        #expect(sealed.bytes.firstRange(of: Array("refresh".utf8)) == nil)
    }

    @Test func opensForItsOwnRowOnly() throws {
        let bob = CredentialID(clientID: alice.clientID, userID: "000123.bob")
        let web = CredentialID(clientID: "com.example.web", userID: alice.userID)
        // The same letters, split at another place.
        let shifted = CredentialID(clientID: alice.clientID + "0", userID: String(alice.userID.dropFirst()))

        for other in [bob, web, shifted] {
            #expect(throws: SealingError.damaged) { try sealer.open(sealed, for: other, grantedAt: granted) }
        }
        for shift in [-1, 1] as [Int64] {
            let other = Timestamp(milliseconds: granted.milliseconds + shift)
            #expect(throws: SealingError.damaged) { try sealer.open(sealed, for: alice, grantedAt: other) }
        }
    }

    @Test func refusesEveryFlippedBit() throws {
        for index in sealed.bytes.indices {
            for bit in 0..<8 {
                var tampered = sealed
                tampered.bytes[index] ^= 1 << bit
                #expect(throws: SealingError.self, "byte \(index), bit \(bit)") {
                    try sealer.open(tampered, for: alice, grantedAt: granted)
                }
            }
        }
    }

    @Test func refusesEveryCutAndAnyTail() throws {
        for length in sealed.bytes.indices {
            #expect(throws: SealingError.self, "\(length) bytes") {
                try sealer.open(SealedToken(bytes: Array(sealed.bytes.prefix(length))), for: alice, grantedAt: granted)
            }
        }
        #expect(throws: SealingError.damaged) { try sealer.open(SealedToken(bytes: sealed.bytes + [0]), for: alice, grantedAt: granted) }
    }

    @Test func opensUnderOldKeysAndSealsUnderTheFirst() throws {
        let (old, new) = (line(of: .generate()), line(of: .generate()))
        let before = try KeyRing(parsing: old)
        let after = try KeyRing(parsing: new + "\n" + old)
        let fingerprintKey = try CredentialSealer.newFingerprintKey(sealedBy: before)

        let oldSealer = try CredentialSealer(ring: before, sealedFingerprintKey: fingerprintKey)
        let newSealer = try CredentialSealer(ring: after, sealedFingerprintKey: fingerprintKey)
        let sealed = try oldSealer.seal(token, for: alice, grantedAt: granted)
        #expect(try newSealer.open(sealed, for: alice, grantedAt: granted) == token)
        #expect(newSealer.fingerprint(of: token) == oldSealer.fingerprint(of: token))

        let resealed = try newSealer.seal(token, for: alice, grantedAt: granted)
        #expect(throws: SealingError.unknownKey(id: after.keyIDs[0])) { try oldSealer.open(resealed, for: alice, grantedAt: granted) }
    }

    @Test func needsTheKeyThatSealedItsFingerprintKey() throws {
        #expect(throws: SealingError.unknownKey(id: ring.keyIDs[0])) { try CredentialSealer(ring: .generate(), sealedFingerprintKey: key) }
        let short = try ring.seal([1, 2, 3], named: CredentialSealer.fingerprintKeyName)
        #expect(throws: SealingError.damaged) { try CredentialSealer(ring: ring, sealedFingerprintKey: short) }
    }

    @Test func fingerprintsTellTokensApart() throws {
        let (one, other) = (try newSealer(ring), try newSealer(ring))
        #expect(one.fingerprint(of: token).count == 32)
        #expect(one.fingerprint(of: token) == one.fingerprint(of: Secret("r1.refresh-token")))
        #expect(one.fingerprint(of: token) != one.fingerprint(of: Secret("r1.refresh-tokem")))
        #expect(one.fingerprint(of: token) != other.fingerprint(of: token), "every database has a key of its own")
    }

    @Test func opensWhatItSealed() throws {
        for text in [token.reveal, "", "\0", "é\u{301}🔑", String(repeating: "x", count: 65_536)] {
            let sealed = try sealer.seal(Secret(text), for: alice, grantedAt: granted)
            // Compare bytes, because Swift treats strings that look the same as equal.
            #expect(try Array(sealer.open(sealed, for: alice, grantedAt: granted).reveal.utf8) == Array(text.utf8))
        }
    }
}

/// Earlier versions have left these values on disk or in logs, and they must keep their meaning. Another implementation made them once, and
/// they never change.
@Suite struct FormatTests {
    let ring: KeyRing
    let alice = CredentialID(clientID: "com.example.app", userID: "000123.alice")
    let granted = Timestamp(milliseconds: 1_700_000_000_000)

    init() throws { ring = try KeyRing(parsing: "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=") }

    @Test func namesTheKey() {
        #expect(ring.keyIDs == ["d4bb8d8b"])
    }

    @Test func opensATokenSealedByVersionOne() throws {
        let sealedKey = "AdS7jYsAAQIDBAUGBwgJCgsHQ5RYgaCEXMUI3cD9pDYi04fVZ6QuCStgPr/eQTRe7fazag+qFA7Gl11f1sj/+Hk="
        let sealedToken = "AdS7jYsMDQ4PEBESExQVFhfqz0eqGhCONkRCZaH+4EOJXEB1d/SbnFwShcqzHhrVug=="
        let key = try #require(Data(base64Encoded: sealedKey))
        let sealed = try #require(Data(base64Encoded: sealedToken))
        let sealer = try CredentialSealer(ring: ring, sealedFingerprintKey: Array(key))
        let token = try sealer.open(SealedToken(bytes: Array(sealed)), for: alice, grantedAt: granted)
        #expect(token == Secret("r1.refresh-token"))
        #expect(Data(sealer.fingerprint(of: token)).base64EncodedString() == "EZBwYEFhBpZQrjlffz0PyG2rkzjjV9msjpXUMl2eAZc=")
        #expect(sealer.pseudonym(of: "000123.alice") == "forgotten:a71964b53b367dbe92b2f9b00d9c65ca", "of a forgotten user")
        let proof = sealer.prove(SigningKeyRecord(keyID: "T8tIJ1zSrO", jwk: #"{"kty":"RSA"}"#, lastSeenAt: granted)).proof
        #expect(Data(proof).base64EncodedString() == "Z+VZtTbnGZ6in9TEqGuD6aWc9v182jwsaLu1DyshIxk=")
        #expect(sealer.userPseudonyms.pseudonym(of: "000123.alice") == "9ae215b03116", "in logs")
    }
}

@Suite struct UserPseudonymsTests {
    let ring = KeyRing.generate()

    @Test func isTwelveHexDigits() throws {
        let pseudonyms = try newSealer(ring).userPseudonyms
        for number in 0..<1000 { #expect(pseudonyms.pseudonym(of: "user\(number)").wholeMatch(of: /[0-9a-f]{12}/) != nil) }
    }

    /// The names belong to the database, and a new sealing key changes none.
    @Test func isTheSameForOneUserInOneDatabase() throws {
        let key = try CredentialSealer.newFingerprintKey(sealedBy: ring)
        let newer = try KeyRing(parsing: "\(line(of: .generate()))\n\(line(of: ring))")
        let names = try [ring, newer].map { try CredentialSealer(ring: $0, sealedFingerprintKey: key).userPseudonyms }
        #expect(names[0].pseudonym(of: "alice") == names[1].pseudonym(of: "alice"))
        #expect(names[0].pseudonym(of: "alice") != names[0].pseudonym(of: "bob"))
        #expect(try names[0].pseudonym(of: "alice") != newSealer(ring).userPseudonyms.pseudonym(of: "alice"))
    }

    @Test func theIntakeTestIsTheDatabasesOwn() throws {
        let (own, other) = (try newSealer(ring).intakeTest, try newSealer(ring).intakeTest)
        let question = Array(own.question("7").utf8)
        #expect(own.answer(to: question) == own.answer("7"))
        #expect(other.answer(to: question) == nil)
    }
}

/// The line of the key file for the sealing key.
func line(of ring: KeyRing) -> String { ring.line }

func newSealer(_ ring: KeyRing) throws -> CredentialSealer {
    try CredentialSealer(ring: ring, sealedFingerprintKey: CredentialSealer.newFingerprintKey(sealedBy: ring))
}
