// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Crypto
import JWTKit
import Testing

@testable import AppleIdentity

/// Tokens that siwatch refuses before it looks for a key or runs any cryptography.
@Suite struct CompactJWSTests {
    @Test func takesAGoodTokenApart() throws {
        let token = AppleFixture.apple.notification()
        let jws = try CompactJWS(token[...])
        #expect(jws.keyID == "T8tIJ1zSrO")
        #expect(jws.claims == Array(AppleFixture.claims().utf8))
        #expect(jws.signature.count == 256)
        #expect(Array(jws.signedBytes) == Array(token[..<token.lastIndex(of: UInt8(ascii: "."))!]))
    }

    @Test(arguments: [
        (#"{"kid":"A","alg":"RS384"}"#, RejectionReason.wrongAlgorithm, "RS384"), (#"{"kid":"A","alg":"none"}"#, .wrongAlgorithm, "none"),
        (#"{"kid":"A","alg":"HS256"}"#, .wrongAlgorithm, "HS256"), (#"{"kid":"A","alg":"rs256"}"#, .wrongAlgorithm, "rs256"),
        (#"{"kid":"A","alg":["RS256"]}"#, .wrongAlgorithm, "none"), (#"{"kid":"A"}"#, .wrongAlgorithm, "none"),
        (#"{"kid":"A","alg":"RS256","crit":["exp"]}"#, .forbiddenHeader, "crit"),
        (#"{"kid":"A","alg":"RS256","crit":null}"#, .forbiddenHeader, "crit"),
        (#"{"kid":"A","alg":"RS256","b64":false}"#, .forbiddenHeader, "b64"), (#"{"alg":"RS256"}"#, .malformed, "no kid"),
        (#"{"kid":"","alg":"RS256"}"#, .malformed, "kid"), (#"{"kid":7,"alg":"RS256"}"#, .malformed, "kid"),
        (#"{"kid":"../keys","alg":"RS256"}"#, .malformed, "kid"), (#"{"kid":"A\u0000","alg":"RS256"}"#, .malformed, "kid"),
        (#"{"kid":"A' OR 1=1","alg":"RS256"}"#, .malformed, "kid"),
        (#"{"kid":"\#(String(repeating: "A", count: 65))","alg":"RS256"}"#, .malformed, "kid"),
        (#"{"kid":"A","alg":"RS384","alg":"RS256"}"#, .malformed, "header is not a JSON object"),
        (#"["RS256"]"#, .malformed, "header is not a JSON object"), ("RS256", .malformed, "header is not a JSON object"),
    ])
    func refusesTheHeader(_ header: String, _ reason: RejectionReason, _ detail: String) {
        let token = Base64URL.encode(header.utf8) + ".e30.AA"
        #expect(throws: VerificationError.rejected(reason, detail: detail)) { try CompactJWS(Array(token.utf8)[...]) }
    }

    @Test func doesNotFollowAKeyThatTheTokenOffers() throws {
        let header = #"{"kid":"A","alg":"RS256","jku":"https://evil.example","x5u":"https://evil.example","jwk":{"kty":"RSA"},"x5c":[]}"#
        #expect(try CompactJWS(Array((Base64URL.encode(header.utf8) + ".e30.AA").utf8)[...]).keyID == "A")
    }

    @Test(arguments: [
        "", ".", "..", "a.b", "e30.e30", "e30.e30.e30.e30", "e30.e30.e30.", "e30=.e30.AA", "e30.e3 0.AA", "e30.e30.A", "e30.e30.AB",
    ])
    func refusesTheForm(_ token: String) {
        #expect { try CompactJWS(Array(token.utf8)[...]) } throws: { error in
            if case .rejected(.malformed, _) = error as? VerificationError { true } else { false }
        }
    }
}

/// Tokens that jwt-kit accepts and siwatch must not. If a test fails on jwt-kit's side, siwatch's remedy may be superfluous.
@Suite struct JWTKitTrapTests {
    private struct AnyClaims: JWTPayload {
        func verify(using algorithm: some JWTAlgorithm) {}
    }

    /// jwt-kit with Apple's key, published without `alg`.
    private func generousKeys() async throws -> JWTKeyCollection {
        let jwk = AppleFixture.apple.jwk(["alg": nil])
        return try await JWTKeyCollection().add(jwksJSON: #"{"keys":[\#(jwk)]}"#)
    }

    private func refuses(_ token: String, _ error: (Verification) -> VerificationError) async throws {
        _ = try await generousKeys().verify(token, as: AnyClaims.self)
        let verifier = try await Verification()
        await #expect(throws: error(verifier)) { try await verifier.verify(token) }
    }

    @Test func refusesAnAlgorithmThatTheTokenChooses() async throws {
        let header = #"{"kid":"\#(AppleFixture.apple.keyID)","alg":"RS384"}"#
        let token = AppleFixture.apple.sign(header: header, claims: AppleFixture.claims()) { SHA384.hash(data: $0) }
        try await refuses(token) { _ in .rejected(.wrongAlgorithm, detail: "RS384") }
    }

    @Test func waitsForTheKeyThatTheTokenNames() async throws {
        let token = AppleFixture.apple.sign(header: #"{"kid":"unknown","alg":"RS256"}"#, claims: AppleFixture.claims())
        try await refuses(token) { .keyNotYetKnown(retryAt: $0.clock.now.advanced(by: .seconds(605))) }
    }

    @Test func refusesATokenThatNamesNoKey() async throws {
        let token = AppleFixture.apple.sign(header: #"{"alg":"RS256"}"#, claims: AppleFixture.claims())
        try await refuses(token) { _ in .rejected(.malformed, detail: "no kid") }
    }
}
