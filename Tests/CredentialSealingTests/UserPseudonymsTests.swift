// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import Testing

@Suite struct UserPseudonymsTests {
    let ring = KeyRing.generate()

    @Test func isTwelveHexDigits() {
        let pseudonyms = UserPseudonyms(ring)
        for number in 0..<1000 {
            #expect(pseudonyms.pseudonym(of: "user\(number)").wholeMatch(of: /[0-9a-f]{12}/) != nil)
        }
    }

    @Test func isTheSameForOneUserUnderOneKey() {
        #expect(UserPseudonyms(ring).pseudonym(of: "alice") == UserPseudonyms(ring).pseudonym(of: "alice"))
        #expect(UserPseudonyms(ring).pseudonym(of: "alice") != UserPseudonyms(ring).pseudonym(of: "bob"))
        #expect(UserPseudonyms(ring).pseudonym(of: "alice") != UserPseudonyms(.generate()).pseudonym(of: "alice"))
    }
}
