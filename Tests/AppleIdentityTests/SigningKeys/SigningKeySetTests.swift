// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import Testing

@testable import AppleIdentity

@Suite struct SigningKeySetTests {
    private static let apple = AppleFixture.apple

    @Test(arguments: [
        [:] as [String: String?], ["use": nil], ["alg": nil], ["x5t": #""abc""#], ["key_ops": #"["verify"]"#], ["kid": #""86D88Kf""#],
        ["n": quoted(Base64URL.encode([0] + apple.modulus))], ["e": #""AAEAAQ""#],
    ])
    func takesKeysForRS256(_ changes: [String: String?]) throws {
        #expect(try SigningKeySet(AppleFixture.keySet(Self.apple.jwk(changes))).keys.count == 1)
    }

    @Test(arguments: [
        ["kty": #""EC""#] as [String: String?], ["kty": nil], ["use": #""enc""#], ["use": "null"], ["key_ops": #"["encrypt"]"#],
        ["key_ops": "[]"], ["key_ops": #""verify""#], ["alg": #""RS384""#], ["alg": #""PS256""#], ["alg": "[]"],
        ["kid": nil], ["kid": #""""#], ["kid": "7"], ["kid": #""a b""#], ["e": #""Aw""#], ["e": nil], ["e": #""AQAB=""#], ["n": nil],
        ["n": #""""#], ["n": quoted(Base64URL.encode(apple.modulus.dropFirst()))],
        ["n": quoted(Base64URL.encode([1] + Array(repeating: 1, count: 512)))],
        ["n": quoted(Base64URL.encode(apple.modulus) + "=")],
        ["d": #""AQAB""#], ["p": #""AQ""#], ["q": #""AQ""#], ["dp": "1"], ["dq": "1"], ["qi": "1"], ["oth": "[]"], ["k": #""AQ""#],
    ])
    func ignoresAllOthers(_ changes: [String: String?]) throws {
        let good = AppleFixture.rotated.jwk()
        #expect(try SigningKeySet(AppleFixture.keySet(Self.apple.jwk(changes), good)).keys.map(\.id) == [AppleFixture.rotated.keyID])
    }

    @Test(arguments: [
        ("", "not a JSON Web Key Set"), ("<html>", "not a JSON Web Key Set"), ("[]", "not a JSON Web Key Set"),
        ("{}", "not a JSON Web Key Set"),
        (#"{"keys":{}}"#, "not a JSON Web Key Set"), (#"{"keys":[]}"#, "no usable key"), (#"{"keys":[1,null]}"#, "no usable key"),
        (#"{"keys":[{"kid":"a"},{"kid":"a"}]}"#, "two keys with one kid"),
        ("{\"keys\":[" + Array(repeating: "{}", count: 33).joined(separator: ",") + "]}", "more than 32 keys"),
    ])
    func refusesTheSet(_ body: String, _ sentence: String) {
        #expect(throws: UnusableKeySet(description: sentence)) { try SigningKeySet(Array(body.utf8)) }
    }

    @Test func writesAKeyAsItWouldReadIt() throws {
        let key = try #require(JSON(Array(Self.apple.jwk(["alg": nil, "use": nil]).utf8)).flatMap(SigningKey.init))
        #expect(key.jwk == Self.apple.jwk())
        #expect(JSON(Array(key.jwk.utf8)).flatMap(SigningKey.init)?.jwk == key.jwk)
    }

    @Test func survivesMutation() {
        var generator = SeededGenerator(seed: 5)
        for _ in 0..<10_000 { _ = try? SigningKeySet(mutated(AppleFixture.keySet(Self.apple.jwk()), using: &generator)) }
    }

    /// A modulus that is no product of two primes must not trap, whatever the library does with it.
    @Test func survivesAnImpossibleModulus() throws {
        let even = Array(Self.apple.modulus.dropLast()) + [0]
        for modulus in [even, [0x80] + Array(repeating: 0, count: 255), Array(repeating: 0xff, count: 512)] {
            let set = try? SigningKeySet(AppleFixture.keySet(Self.apple.jwk(["n": quoted(Base64URL.encode(modulus))])))
            let token = try CompactJWS(Self.apple.notification()[...])
            #expect(set?.keys.first?.isValid(token.signature, over: token.signedBytes) != true)
        }
    }
}
