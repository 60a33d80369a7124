// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@testable import AppleIdentity

@Suite struct AppleNotificationVerifierTests {
    private static let apple = AppleFixture.apple
    private static let issuedAt = AppleFixture.issuedAt
    private static let occurredAt = Timestamp(milliseconds: issuedAt * 1000 - 12_345)
    private static let tooLate = issuedAt * 1000 + 301_000

    private let verification: Verification

    init() async throws { verification = try await Verification() }

    private static func expected(_ type: String = "consent-revoked", _ kind: Event.Kind = .consentRevoked) -> VerifiedNotification {
        VerifiedNotification(
            clientID: AppleFixture.client,
            userID: AppleFixture.user,
            tokenID: "uZmGepCUZyA_0by3Jh7JCQ",
            type: type,
            event: Event(kind, at: occurredAt)
        )
    }

    // MARK: Accepted

    @Test(arguments: ["%", "{\"payload\":\"%\"}", " { \"payload\" : \"%\" , \"more\" : [1] }\r\n", "%\n", "\t %"])
    func takesBothFormsOfTheBody(_ form: String) async throws {
        let token = String(decoding: Self.apple.notification(), as: UTF8.self)
        #expect(try await verification.verify(form.replacing("%", with: token)) == Self.expected())
    }

    @Test(arguments: [
        ("consent-revoked", Event.Kind.consentRevoked), ("account-delete", .accountDeleted), ("account-deleted", .accountDeleted),
        ("email-enabled", .emailEnabled(nil)), ("email-disabled", .emailDisabled(nil)), ("something-new", .unknown),
    ])
    func knowsTheTypes(_ type: String, _ kind: Event.Kind) async throws {
        let payload = Self.apple.notification(event: ["type": quoted(type)])
        #expect(try await verification.verify(payload) == Self.expected(type, kind))
    }

    @Test(arguments: [
        (#""true""# as String?, true as Bool?), (#""false""#, false), ("true", true), ("false", false), ("null", nil), (nil, nil),
    ])
    func readsTheAddress(_ isPrivate: String?, _ expected: Bool?) async throws {
        let fields = ["type": #""email-disabled""#, "email": #""a@privaterelay.appleid.com""#, "is_private_email": isPrivate]
        let event = try await verification.verify(Self.apple.notification(event: fields)).event
        #expect(event.kind == .emailDisabled(EmailAddress("a@privaterelay.appleid.com", isPrivate: expected)))
    }

    @Test func anAddressCannotHoldUpADeletion() async throws {
        let fields = ["type": #""account-deleted""#, "email": "7", "is_private_email": #""maybe""#]
        #expect(try await verification.verify(Self.apple.notification(event: fields)).event.kind == .accountDeleted)
    }

    @Test(arguments: [
        ["events": AppleFixture.event()] as [String: String?], ["events": "[\(AppleFixture.event())]"],
        ["events": quoted("[\(AppleFixture.event())]")], ["aud": #"["com.example.app"]"#], ["exp": nil], ["exp": "\(issuedAt + 86_400).5"],
        ["iss": #""https:\/\/appleid.apple.com""#], ["iat": "\(issuedAt + 330)"], ["iat": "\(issuedAt * 1000)"],
        ["exp": "\(issuedAt + 30 - 299)"],
    ])
    func takesWhatDocumentsAndWireDisagreeOn(_ claims: [String: String?]) async throws {
        #expect(try await verification.verify(Self.apple.notification(claims)) == Self.expected())
    }

    @Test(arguments: [
        ("1759999987", 1_759_999_987_000 as Int64), ("1759999987655", 1_759_999_987_655), ("1546300800", 1_546_300_800_000),
        ("\(issuedAt * 1000 + 300_999)", issuedAt * 1000 + 300_999), ("\(issuedAt + 300)", (issuedAt + 300) * 1000),
    ])
    func readsEventTimeInSecondsAndMilliseconds(_ wire: String, _ milliseconds: Int64) async throws {
        let event = try await verification.verify(Self.apple.notification(event: ["event_time": wire])).event
        #expect(event.occurredAt == Timestamp(milliseconds: milliseconds))
    }

    @Test func judgesExpiryByTheTimeOfReceipt() async throws {
        let receivedAt = verification.clock.now
        // The clock was two days ahead when it came.
        _ = try await verification.verify(Self.apple.notification(), receivedAt: receivedAt.advanced(by: .seconds(2 * 86_400)))
        verification.clock.advance(by: .seconds(30 * 86_400))
        #expect(try await verification.verify(Self.apple.notification(), receivedAt: receivedAt) == Self.expected())
    }

    /// A clock that is behind keeps nothing out that Apple signed: siwatch knows Apple's clock, or it waits for its own.
    @Test func judgesIssueByTheLatestClock() async throws {
        let payload = Self.apple.notification(["iat": "\(Self.issuedAt + 3600)"])
        let receivedAt = verification.clock.now
        await #expect(throws: VerificationError.notYetIssued(retryAt: receivedAt.advanced(by: .seconds(60)))) {
            try await verification.verify(payload, receivedAt: receivedAt)
        }
        let informed = verification.verifier(appleTime: receivedAt.advanced(by: .seconds(3600)))
        _ = try await informed.verify(payload, receivedAt: receivedAt)
        _ = try await verification.verify(payload, receivedAt: receivedAt.advanced(by: .seconds(3600)))
        verification.clock.advance(by: .seconds(3600))
        _ = try await verification.verify(payload, receivedAt: receivedAt)
    }

    /// A clock of this host that is a day ahead expires nothing, once Apple's is known. Before, it does.
    @Test func judgesExpiryByApplesClock() async throws {
        let appleTime = verification.clock.now
        let receivedAt = appleTime.advanced(by: .days(2))
        verification.clock.advance(by: .days(2))
        let payload = Self.apple.notification()
        let informed = verification.verifier(appleTime: appleTime)
        _ = try await informed.verify(payload, receivedAt: receivedAt)
        await #expect(throws: VerificationError.self) { try await verification.verify(payload, receivedAt: receivedAt) }
    }

    // MARK: Rejected

    struct Rejection: Sendable, CustomTestStringConvertible {
        var payload: [UInt8]
        var reason: RejectionReason
        var detail: String

        init(_ payload: [UInt8], _ reason: RejectionReason, _ detail: String) {
            (self.payload, self.reason, self.detail) = (payload, reason, detail)
        }

        init(_ claims: [String: String?] = [:], event: [String: String?] = [:], _ reason: RejectionReason, _ detail: String) {
            self.init(apple.notification(claims, event: event), reason, detail)
        }

        var testDescription: String { "\(reason): \(detail)" }
    }

    static let rejections: [Rejection] = [
        Rejection([], .malformed, "empty"), Rejection(Array(" \n".utf8), .malformed, "empty"),
        Rejection(Array("{".utf8), .malformed, "body is not JSON"),
        Rejection(Array(#"{"payload":"a","payload":"b"}"#.utf8), .malformed, "body is not JSON"),
        Rejection(Array(#"{"payload":7}"#.utf8), .malformed, "body without payload"),
        Rejection(Array("hello".utf8), .malformed, "not three parts"),
        Rejection(Array(repeating: UInt8(ascii: "a"), count: 65_537), .malformed, "larger than 64 KiB"),
        Rejection(apple.notification() + [0], .malformed, "NUL"),
        Rejection(apple.notification() + Array("\0evil".utf8), .malformed, "NUL"),
        Rejection([0] + apple.notification(), .malformed, "NUL"),
        Rejection(Array("{\"payload\":\"".utf8) + apple.notification() + Array("\\u0000\"}".utf8), .malformed, "not base64url"),
        Rejection([0xff, 0xfe], .malformed, "not three parts"),
        Rejection(apple.notification(header: #"{"kid":"T8tIJ1zSrO","alg":"ES256"}"#), .wrongAlgorithm, "ES256"),
        Rejection(apple.notification(header: #"{"kid":"T8tIJ1zSrO","alg":"RS256","crit":[]}"#), .forbiddenHeader, "crit"),
        Rejection(AppleFixture.rotated.notification(header: #"{"kid":"T8tIJ1zSrO","alg":"RS256"}"#), .badSignature, "T8tIJ1zSrO"),
        Rejection(Array(apple.sign(claims: "[]").utf8), .malformedClaim, "claims are not a JSON object"),
        Rejection(Array(apple.sign(claims: #"{"iss":1,"iss":1}"#).utf8), .malformedClaim, "claims are not a JSON object"),
        Rejection(["nonce": #""n""#], .notAnEvent, "carries nonce"), Rejection(["at_hash": #""h""#], .notAnEvent, "carries at_hash"),
        Rejection(["events": nil], .notAnEvent, "carries no events"), Rejection(["events": "7"], .malformedClaim, "events"),
        Rejection(["events": quoted("[]")], .malformedClaim, "events"),
        Rejection(["events": "[\(AppleFixture.event()),\(AppleFixture.event())]"], .malformedClaim, "events"),
        Rejection(["jti": #""a\u0007""#], .malformedClaim, "jti"), Rejection(["jti": #""a\u009b2J""#], .malformedClaim, "jti"),
        Rejection(["jti": #""a\u202eb""#], .malformedClaim, "jti"), Rejection(["jti": #""a\u2028b""#], .malformedClaim, "jti"),
        Rejection(["events": quoted(#"{"type":1,"type":2}"#)], .malformedClaim, "events"), Rejection(["iss": nil], .missingClaim, "iss"),
        Rejection(["iss": #""https://account.apple.com""#], .wrongIssuer, "https://account.apple.com"),
        Rejection(["aud": nil], .missingClaim, "aud"), Rejection(["aud": "[]"], .malformedClaim, "aud"),
        Rejection(["aud": #"["com.example.app","com.example.web"]"#], .malformedClaim, "aud"),
        Rejection(["aud": #""com.other.app""#], .wrongAudience, "com.other.app"), Rejection(["iat": nil], .missingClaim, "iat"),
        Rejection(["iat": #""1760000000""#], .malformedClaim, "iat"), Rejection(["iat": "\(Int64.max)"], .malformedClaim, "iat"),
        Rejection(["iat": "1e300"], .malformedClaim, "iat"), Rejection(["iat": "\(issuedAt * 1_000_000)"], .malformedClaim, "iat"),
        Rejection(["exp": "\(issuedAt + 30 - 300)"], .expired, "exp \(issuedAt + 30 - 300)"),
        Rejection(["exp": #""never""#], .malformedClaim, "exp"), Rejection(["jti": nil], .missingClaim, "jti"),
        Rejection(["jti": #""""#], .malformedClaim, "jti"),
        Rejection(event: ["sub": nil], .missingClaim, "sub"), Rejection(event: ["sub": "7"], .malformedClaim, "sub"),
        Rejection(event: ["sub": #""a\u0000b""#], .malformedClaim, "sub"),
        Rejection(event: ["sub": quoted(String(repeating: "a", count: 256))], .malformedClaim, "sub"),
        Rejection(event: ["type": "null"], .missingClaim, "type"), Rejection(event: ["type": #""\n""#], .malformedClaim, "type"),
        Rejection(event: ["event_time": nil], .missingClaim, "event_time"),
        Rejection(event: ["event_time": #""1760000000000""#], .malformedClaim, "event_time"),
        Rejection(event: ["event_time": "1.5"], .malformedClaim, "event_time"),
        Rejection(event: ["event_time": "-1"], .malformedClaim, "event_time -1"),
        Rejection(event: ["event_time": "\(Int64.min)"], .malformedClaim, "event_time \(Int64.min)"),
        Rejection(event: ["event_time": "\(Int64.max)"], .malformedClaim, "event_time \(Int64.max)"),
        Rejection(event: ["event_time": "1759999987655000"], .malformedClaim, "event_time 1759999987655000"),
        Rejection(event: ["event_time": "1546300799"], .malformedClaim, "event_time 1546300799"),
        Rejection(event: ["event_time": "\(tooLate)"], .malformedClaim, "event_time \(tooLate) is after iat \(issuedAt)"),
        Rejection(event: ["event_time": "4102444800000"], .malformedClaim, "event_time 4102444800000 is after iat \(issuedAt)"),
        Rejection(event: ["type": #""email-enabled""#, "email": "7"], .malformedClaim, "email"),
        Rejection(event: ["type": #""email-enabled""#, "email": #""a@b""#, "is_private_email": "1"], .malformedClaim, "is_private_email"),
    ]

    @Test(arguments: rejections)
    func rejectsForTheRightReason(_ rejection: Rejection) async throws {
        await #expect(throws: VerificationError.rejected(rejection.reason, detail: rejection.detail)) {
            try await verification.verify(rejection.payload)
        }
    }

    /// `unknown_key` takes ten minutes and has tests of its own. A verifier never gives `poison`, and lets what is dated ahead wait.
    @Test func everyReasonIsTried() {
        #expect(Set(Self.rejections.map(\.reason)).union([.unknownKey, .poison, .issuedInFuture]) == Set(RejectionReason.allCases))
    }

    // MARK: Fuzz

    @Test func noMutantVerifies() async throws {
        let token = Self.apple.notification()
        var generator = SeededGenerator(seed: 4)
        for _ in 0..<2000 {
            let mutant = mutated(token, using: &generator)
            guard trimmed(mutant) != token else { continue }
            await #expect(throws: VerificationError.self) { try await verification.verify(mutant) }
        }
    }

    private func trimmed(_ bytes: [UInt8]) -> [UInt8] {
        Array(bytes.drop(while: \.isJSONWhiteSpace).reversed().drop(while: \.isJSONWhiteSpace).reversed())
    }

    @Test func manyTasksVerifyAtOnce() async throws {
        let payload = Self.apple.notification()
        try await withThrowingTaskGroup { group in
            for _ in 0..<64 { group.addTask { try await verification.verify(payload) } }
            for try await notification in group { #expect(notification == Self.expected()) }
        }
    }
}
