// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@testable import AppleIdentity

@Suite struct AppleIdentityTokenVerifierTests {
    private static let apple = AppleFixture.apple
    private static let issuedAt = AppleFixture.issuedAt
    private static let now = AppleFixture.now

    private static func claims(_ changes: [String: String?] = [:]) -> String {
        let identity = [
            "jti": nil, "events": nil, "sub": quoted(AppleFixture.user), "exp": "\(issuedAt + 600)", "at_hash": #""h""#,
        ].merging(changes) { $1 }
        return AppleFixture.claims(identity)
    }

    private static func token(_ changes: [String: String?] = [:]) -> String { apple.sign(claims: claims(changes)) }

    private let verification: Verification

    init() async throws { verification = try await Verification() }

    private func verify(_ token: String, nonce: String? = nil, at now: Timestamp = now) async throws -> VerifiedIdentity {
        try await Self.verifier(verification).verify(Secret(token), issuedTo: AppleFixture.client, nonce: nonce, at: now)
    }

    private static func verifier(_ verification: Verification) -> AppleIdentityTokenVerifier {
        AppleIdentityTokenVerifier(keys: verification.keys, policy: Verification.policy, clock: verification.clock.wallClock)
    }

    private static func identity(_ address: EmailAddress? = nil) -> VerifiedIdentity {
        VerifiedIdentity(userID: AppleFixture.user, issuedAt: Timestamp(seconds: issuedAt), address: address)
    }

    // MARK: Accepted

    @Test(arguments: [
        [:] as [String: String?], ["aud": #"["com.example.app"]"#], ["iss": #""https:\/\/appleid.apple.com""#],
        ["exp": "\(issuedAt + 30 - 299)"], ["nonce": #""whatever""#],
        ["nonce_supported": "true", "real_user_status": "2", "transfer_sub": #""x""#, "auth_time": "1"],
    ])
    func takesWhatTheWireShows(_ claims: [String: String?]) async throws {
        var identity = Self.identity()
        // Passed on as Apple says it. A text is no number.
        if claims["real_user_status"] == "2" { identity.realUserStatus = 2 }
        #expect(try await verify(Self.token(claims)) == identity)
    }

    /// Apple's clock may be half an hour ahead, whatever the host's clock says: the caller passes the time in.
    @Test func judgesByTheClockThatIsHandedIn() async throws {
        let (early, late) = (Self.now.advanced(by: .hours(-1)), Self.now.advanced(by: .hours(1)))
        await #expect(throws: VerificationError.rejected(.issuedInFuture, detail: "iat \(Self.issuedAt)")) {
            try await verify(Self.token(), at: early)
        }
        await #expect(throws: VerificationError.rejected(.expired, detail: "exp \(Self.issuedAt + 600)")) {
            try await verify(Self.token(), at: late)
        }
        verification.clock.advance(by: .hours(1))
        #expect(try await verify(Self.token()) == Self.identity())
    }

    @Test(arguments: [
        (#""true""# as String?, true as Bool?), (#""false""#, false), ("true", true), ("false", false), ("null", nil), (nil, nil),
        ("1", nil),
    ])
    func readsTheAddress(_ isPrivate: String?, _ expected: Bool?) async throws {
        let token = Self.token(["email": #""a@privaterelay.appleid.com""#, "is_private_email": isPrivate])
        #expect(try await verify(token) == Self.identity(EmailAddress("a@privaterelay.appleid.com", isPrivate: expected)))
    }

    @Test(arguments: [nil, "null", #""""#, "7", #""a\nb""#, quoted(String(repeating: "a", count: 256))] as [String?])
    func anAddressTurnsNobodyAway(_ email: String?) async throws {
        #expect(try await verify(Self.token(["email": email, "is_private_email": "true"])) == Self.identity())
    }

    // MARK: Rejected

    static let flaws: [(token: String, reason: RejectionReason, detail: String)] = [
        (token(["iss": nil]), .missingClaim, "iss"),
        (token(["iss": #""https://account.apple.com""#]), .wrongIssuer, "https://account.apple.com"),
        (token(["aud": nil]), .missingClaim, "aud"), (token(["aud": "[]"]), .malformedClaim, "aud"),
        (token(["aud": #"["com.example.app","com.example.app"]"#]), .malformedClaim, "aud"),
        (token(["aud": #"["com.example.app","com.example.web"]"#]), .malformedClaim, "aud"),
        // Configured, but not the client that asked.
        (token(["aud": #""com.example.web""#]), .wrongAudience, "com.example.web"),
        (token(["aud": #""com.example.App""#]), .wrongAudience, "com.example.App"),
        (token(["iat": nil]), .missingClaim, "iat"), (token(["iat": #""1760000000""#]), .malformedClaim, "iat"),
        (token(["iat": "\(issuedAt + 331)"]), .issuedInFuture, "iat \(issuedAt + 331)"),
        // A table cannot hold this time.
        (token(["iat": "1"]), .issuedInFuture, "iat 1"),
        (token(["exp": nil]), .missingClaim, "exp"), (token(["exp": "null"]), .missingClaim, "exp"),
        (token(["exp": "\(issuedAt + 30 - 300)"]), .expired, "exp \(issuedAt + 30 - 300)"),
        (token(["sub": nil]), .missingClaim, "sub"), (token(["sub": #""""#]), .malformedClaim, "sub"),
        (token(["sub": "7"]), .malformedClaim, "sub"), (token(["sub": #""a\u0000b""#]), .malformedClaim, "sub"),
        (token(["sub": quoted(String(repeating: "a", count: 256))]), .malformedClaim, "sub"),
        (token(["events": quoted(AppleFixture.event())]), .malformedClaim, "carries events"),
        (token(["events": "null"]), .malformedClaim, "carries events"),
        (apple.sign(claims: "[]"), .malformedClaim, "claims are not a JSON object"),
        (apple.sign(claims: "{\"sub\":\"x\"," + claims().dropFirst()), .malformedClaim, "claims are not a JSON object"),
        (apple.sign(header: #"{"kid":"T8tIJ1zSrO","alg":"HS256"}"#, claims: claims()), .wrongAlgorithm, "HS256"),
        (apple.sign(header: #"{"kid":"T8tIJ1zSrO","alg":"none"}"#, claims: claims()), .wrongAlgorithm, "none"),
        (apple.sign(header: #"{"alg":"RS256"}"#, claims: claims()), .malformed, "no kid"),
        (AppleFixture.rotated.sign(header: #"{"kid":"T8tIJ1zSrO","alg":"RS256"}"#, claims: claims()), .badSignature, "T8tIJ1zSrO"),
        (token() + ".", .malformed, "not base64url"),
        ("", .malformed, "not three parts"),
        (String(repeating: "a", count: 65_537), .malformed, "larger than 64 KiB"),
    ]

    @Test(arguments: flaws.indices) func rejectsForTheRightReason(_ index: Int) async throws {
        let flaw = Self.flaws[index]
        await #expect(throws: VerificationError.rejected(flaw.reason, detail: flaw.detail)) { try await verify(flaw.token) }
    }

    @Test(arguments: [
        (["nonce": #""n""#] as [String: String?], nil as String?), (["nonce": #""n""#, "nonce_supported": "true"], nil),
        (["nonce_supported": "false"], nil), (["nonce_supported": #""false""#], nil),
        (["nonce": "null", "nonce_supported": "false"], nil),
        (["nonce": #""m""#], "the token has another"), (["nonce": #""N""#], "the token has another"),
        (["nonce": "7"], "the token has another"),
        // A device that names another nonce can carry it.
        (["nonce": #""m""#, "nonce_supported": "false"], "the token has another"), (["nonce_supported": "true"], "the token has none"),
        (["nonce_supported": "0"], "the token has none"), ([:], "the token has none"),
        (["nonce": quoted(hash)], "the token has the SHA-256 of yours"),
        (["nonce": quoted(hash.uppercased())], "the token has the SHA-256 of yours"),
    ])
    func theNonceIsTheOneOfTheSignIn(_ claims: [String: String?], _ difference: String?) async throws {
        guard let difference else { return #expect(try await verify(Self.token(claims), nonce: "n") == Self.identity()) }
        let reason = difference == "the token has none" ? RejectionReason.missingClaim : .malformedClaim
        await #expect(throws: VerificationError.rejected(reason, detail: "nonce: \(difference)")) {
            try await verify(Self.token(claims), nonce: "n")
        }
    }

    @Test func aNonceThatIsHashedOnceTooOftenIsSaid() async throws {
        let expected = VerificationError.rejected(.malformedClaim, detail: "nonce: yours is the SHA-256 of the token's")
        await #expect(throws: expected) { try await verify(Self.token(["nonce": #""n""#]), nonce: Self.hash) }
    }

    /// Of `n`.
    private static let hash = "1b16b1df538ba12dc3f97edbb85caa7050d46c148134290feba80f8236c83db9"

    @Test func twoSpellingsOfANonceAreTwo() async throws {
        let token = Self.token(["nonce": quoted("\u{e9}")])
        await #expect(throws: VerificationError.self) { try await verify(token, nonce: "e\u{301}") }
        #expect(try await verify(token, nonce: "\u{e9}") == Self.identity())
    }

    // MARK: Keys

    /// Apple signs with a new key before siwatch has fetched it. The same token verifies a minute later.
    @Test func waitsForAKeyThatIsNotKnownYet() async throws {
        let token = AppleFixture.rotated.sign(claims: Self.claims())
        let error = await #expect(throws: VerificationError.self) { try await verify(token) }
        let isWaitedFor = if case .keyNotYetKnown = error { true } else { false }
        #expect(isWaitedFor, "\(String(describing: error))")
        verification.transport.now(publishes: AppleFixture.apple.jwk(), AppleFixture.rotated.jwk())
        verification.clock.advance(by: .minutes(1))
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(try await verify(token) == Self.identity())
    }

    @Test func knowsWhetherItCanVerifyAtAll() async throws {
        #expect(Self.verifier(verification).hasKeys)
        #expect(try await !Self.verifier(Verification(fetches: false)).hasKeys)
    }

    @Test func noMutantVerifies() async throws {
        let token = Array(Self.token().utf8)
        var generator = SeededGenerator(seed: 12)
        for _ in 0..<1000 {
            let mutant = mutated(token, using: &generator)
            guard mutant != token, let text = String(validating: mutant, as: UTF8.self) else { continue }
            await #expect(throws: VerificationError.self) { try await verify(text) }
        }
    }
}
