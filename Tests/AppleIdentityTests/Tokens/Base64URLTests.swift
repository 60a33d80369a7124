// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import Testing

@testable import AppleIdentity

@Suite struct Base64URLTests {
    @Test(arguments: [
        ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"), ("foobar", "Zm9vYmFy"),
    ])
    func knowsTheVectorsOfRFC4648(_ plain: String, _ text: String) {
        #expect(Base64URL.encode(plain.utf8) == text)
        #expect(Base64URL.decode(text.utf8) == Array(plain.utf8))
    }

    @Test(arguments: [
        "Zg==", "Zm8=", "Zg=", "Z", "Zm9vY", "Zm 9v", "Zm9v\n", " Zm9v", "Zm+v", "Zm/v", "Zm9\0", "Zm9é", "Zm.v",
        "Zh", "Zn", "Zm9", "Zm-", "A_",
    ])
    func refusesWhatIsNotTheOneText(_ text: String) {
        #expect(Base64URL.decode(text.utf8) == nil)
    }

    @Test func isABijection() {
        var generator = SeededGenerator(seed: 3)
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            #expect(Base64URL.decode(Base64URL.encode(bytes).utf8) == bytes)
        }
    }
}
