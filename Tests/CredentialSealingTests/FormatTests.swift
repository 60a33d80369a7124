// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing
import Foundation
import Testing

/// Earlier versions have left these values on disk or in logs, and they must keep their meaning. Another implementation made them once, and
/// they never change.
@Suite struct FormatTests {
    let ring: KeyRing
    let alice = CredentialID(clientID: "com.example.app", userID: "000123.alice")
    let granted = Timestamp(milliseconds: 1_700_000_000_000)

    init() throws {
        ring = try KeyRing(parsing: "siwatch-sealing-key-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
    }

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
    }

    @Test func namesTheUserInLogs() {
        #expect(UserPseudonyms(ring).pseudonym(of: "000123.alice") == "9b2361dfab22")
    }
}
