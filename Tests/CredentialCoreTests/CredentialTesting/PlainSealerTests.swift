// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// The sealer of the tests binds a token to its credential and grant, as the real one does.
@Suite struct PlainSealerTests {
    private let sealer = PlainSealer()
    private let credential = CredentialID(clientID: "com.example.app", userID: "anna")

    @Test(arguments: ["", "tok-en", "tök\u{0}en"])
    func whatIsSealedOpensForTheSameGrant(_ text: String) throws {
        let sealed = sealer.seal(Secret(text), for: credential, grantedAt: at(5))
        #expect(try sealer.open(sealed, for: credential, grantedAt: at(5)) == Secret(text))
    }

    private static let others: [(CredentialID, Int64)] = [
        (CredentialID(clientID: "com.example.web", userID: "anna"), 5),
        (CredentialID(clientID: "com.example.app", userID: "bert"), 5),
        (CredentialID(clientID: "com.example.app", userID: "anna"), 6),
        (CredentialID(clientID: "com.example.app", userID: ""), 5),
    ]

    @Test(arguments: others)
    func itOpensForNoOther(_ other: CredentialID, _ grantedAt: Int64) {
        let sealed = sealer.seal(Secret("tok-en"), for: credential, grantedAt: at(5))
        #expect(throws: PlainSealer.WrongSeal.self) { try sealer.open(sealed, for: other, grantedAt: at(grantedAt)) }
    }

    @Test func damagedBytesDoNotOpen() {
        let sealed = sealer.seal(Secret("tok-en"), for: credential, grantedAt: at(5))
        for bytes in [[], Array(sealed.bytes.dropFirst()), sealed.bytes + [0xff]] {
            #expect(throws: PlainSealer.WrongSeal.self) {
                try sealer.open(SealedToken(bytes: bytes), for: credential, grantedAt: at(5))
            }
        }
    }

    @Test func theTokenDoesNotStandInClear() {
        let sealed = sealer.seal(Secret("tok-en"), for: credential, grantedAt: at(5))
        let text = String(decoding: sealed.bytes, as: UTF8.self)
        #expect(text.hasPrefix("sealed"))
        #expect(!text.contains("tok-en"))
    }

    @Test func aFingerprintFollowsFromTheTokenAlone() {
        #expect(sealer.fingerprint(of: Secret("tok-en")) == PlainSealer().fingerprint(of: Secret("tok-en")))
        #expect(sealer.fingerprint(of: Secret("tok-en")) != sealer.fingerprint(of: Secret("to-ken")))
        #expect(sealer.fingerprint(of: Secret("tok-en")).count == 32)
    }
}
