// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite struct PlainSealerTests {
    /// Otherwise no test would see that siwatch opens a token for another sign-in.
    @Test func itOpensForItsGrantAlone() throws {
        let (sealer, app) = (PlainSealer(), CredentialID(clientID: "app", userID: "anna"))
        let sealed = sealer.seal(Secret("tok-en"), for: app, grantedAt: at(5))
        #expect(try sealer.open(sealed, for: app, grantedAt: at(5)) == Secret("tok-en"))
        let others = [("web", "anna", 5), ("app", "bert", 5), ("app", "anna", 6), ("app", "", 5)] as [(String, String, Int64)]
        for (client, user, time) in others {
            let other = CredentialID(clientID: client, userID: user)
            #expect(throws: PlainSealer.WrongSeal.self) { try sealer.open(sealed, for: other, grantedAt: at(time)) }
        }
        #expect(!String(decoding: sealed.bytes, as: UTF8.self).contains("tok-en"), "no search for tokens finds it")
    }

    /// Otherwise no test would see that a token stands under a key that is gone.
    @Test func itOpensWithItsKeysAlone() throws {
        let app = CredentialID(clientID: "app", userID: "anna")
        let old = PlainSealer().seal(Secret("tok-en"), for: app, grantedAt: at(5))
        let ring = PlainSealer { ["knew", PlainSealer.onlyKey] }
        let new = try #require(try ring.reseal(old, for: app, grantedAt: at(5)))
        #expect(try ring.reseal(new, for: app, grantedAt: at(5)) == nil)
        #expect(try ring.open(old, for: app, grantedAt: at(5)) == Secret("tok-en"))
        #expect(try PlainSealer { ["knew"] }.open(new, for: app, grantedAt: at(5)) == Secret("tok-en"))
        #expect(throws: PlainSealer.WrongSeal.self) { try PlainSealer { ["knew"] }.open(old, for: app, grantedAt: at(5)) }
    }
}
