// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing
@testable import AppleIdentity

struct UserMentionTests {
    private static let claims = #"{"aud":"com.example.app","events":"{\"sub\":\"000123.a1.0042\"}"}"#

    /// Whether a message with these claims names the user, as a bare token, as a body, and as no token.
    private func forms(of claims: String) -> [[UInt8]] {
        let token = "e30.\(Base64URL.encode(claims.utf8)).e30"
        return [token, "{\"payload\":\"\(token)\"}", claims].map { Array($0.utf8) }
    }

    @Test func aMessageNamesItsUserInEveryForm() {
        for body in forms(of: Self.claims) {
            #expect(UserMention(of: "000123.a1.0042").isFound(in: body))
            #expect(UserMention(of: "000123.a1.0042", at: ["com.example.app"]).isFound(in: body))
            #expect(!UserMention(of: "000123.a1.0042", at: ["com.example"]).isFound(in: body))
        }
    }

    @Test(arguments: ["000123.a1.004", "00123.a1.0042", "a1", "", "000999.a1.0042"])
    func aPartOfANameIsNobody(_ user: String) {
        for body in forms(of: Self.claims) { #expect(!UserMention(of: user).isFound(in: body)) }
    }

    @Test func rubbishNamesNobody() {
        for body in ["", ".", "a.b.c", "{}", "\0"] { #expect(!UserMention(of: "u").isFound(in: Array(body.utf8))) }
    }
}
