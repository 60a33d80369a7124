// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore
import CredentialTesting
import Testing

@testable import AppleIdentity

/// Apple's answers to a code and to a revocation.
@Suite struct ExchangeTests {
    private static let code = "c0123456789abcdef0123456789abcdef.0.mruy.AAAAAAAAAAAAAAAAAAAAAA"
    private static let idToken = "e30." + Base64URL.encode(#"{"sub":"ann"}"#.utf8) + ".AA"

    private static func response(_ status: Int, _ body: [UInt8]?, retryAfter: String? = nil) -> TokenResponse {
        let response = TransportResponse(status: status, body: body, retryAfter: retryAfter)
        return TokenResponse(response: response, secrets: [Secret(code)], receivedAt: AppleFixture.now)
    }

    private static func exchange(_ status: Int, _ body: String) -> EndpointAnswer<ExchangeNews> {
        response(status, Array(body.utf8)).exchangeAnswer
    }

    private static func complaint(_ error: String, _ description: String? = nil) -> String {
        #"{"error":\#(quoted(error))\#(description.map { #","error_description":\#(quoted($0))"# } ?? "")}"#
    }

    private static func issued(_ token: String?, _ identity: String?, _ user: String? = nil) -> EndpointAnswer<ExchangeNews> {
        .issued(IssuedTokens(refreshToken: token.map(Secret.init), identityToken: identity.map(Secret.init), namedUserID: user))
    }

    // MARK: Codes

    @Test(arguments: [
        (
            #"{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r","id_token":"\#(idToken)"}"#,
            issued("r", idToken, "ann")
        ),
        (#"{"refresh_token":"r"}"#, issued("r", nil)), (#"{"refresh_token":"r","id_token":"rubbish"}"#, issued("r", "rubbish")),
        (#"{"refresh_token":"","id_token":"\#(idToken)"}"#, issued(nil, idToken, "ann")),
        (#"{"refresh_token":7,"id_token":"x"}"#, issued(nil, "x")),
        ("", .unavailable("200 without JSON", isAnswerLost: true)), ("<html>", .unavailable("200 without JSON", isAnswerLost: true)),
        (#"{"refresh_token":"a","refresh_token":"b"}"#, .unavailable("200 without JSON", isAnswerLost: true)),
        (#"{"access_token":"a"}"#, .unavailable("200 without tokens", isAnswerLost: true)),
        (#"{"refresh_token":null,"id_token":null}"#, .unavailable("200 without tokens", isAnswerLost: true)),
    ])
    func classifies200(_ body: String, _ expected: EndpointAnswer<ExchangeNews>) {
        #expect(Self.exchange(200, body) == expected)
    }

    @Test(arguments: [
        ("The code has expired or has been revoked.", GrantRejection.codeExpired),
        // Apple's text about codes for some days in December 2022.
        ("The token has expired or has been revoked.", .codeExpired),
        ("The code has already been used.", .codeUsed),
        ("client_id mismatch. The code was not issued to com.example.app.", .clientMismatch),
        ("redirect_uri mismatch. The code was not issued to https://a.example.", .redirectURIMismatch),
        ("Something nobody has seen.", .rejectedByApple),
    ])
    func tellsRefusalsApart(_ description: String, _ reason: GrantRejection) {
        let answer = Self.exchange(400, Self.complaint("invalid_grant", description))
        #expect(answer == .refused(reason, detail: "invalid_grant: \(description)"))
    }

    @Test(arguments: [
        (complaint("invalid_grant"), EndpointAnswer<ExchangeNews>.refused(.rejectedByApple, detail: "invalid_grant")),
        (complaint("invalid_request"), .refused(.rejectedByApple, detail: "invalid_request")),
        (complaint("Invalid_Grant"), .refused(.rejectedByApple, detail: "Invalid_Grant")),
        (complaint("invalid_client"), .misconfigured("invalid_client")),
        (complaint("unauthorized_client"), .misconfigured("unauthorized_client")),
        (complaint("unsupported_grant_type"), .misconfigured("unsupported_grant_type")),
        (complaint("invalid_scope"), .misconfigured("invalid_scope")),
        (complaint("server_error"), .unavailable("server_error", isAnswerLost: false)),
        (complaint("temporarily_unavailable"), .unavailable("temporarily_unavailable", isAnswerLost: false)),
        ("{}", .unavailable("400 without error", isAnswerLost: false)),
        (#"{"error":7}"#, .unavailable("400 without error", isAnswerLost: false)),
        ("<html>", .unavailable("400 without JSON", isAnswerLost: false)),
    ])
    func classifies400(_ body: String, _ expected: EndpointAnswer<ExchangeNews>) {
        #expect(Self.exchange(400, body) == expected)
    }

    @Test(arguments: [201, 204, 301, 302, 401, 403, 404, 500, 502, 503, 504]) func saysNothingOfACodeOtherwise(_ status: Int) {
        for body in [Self.complaint("invalid_grant"), #"{"refresh_token":"r"}"#, "<html>"] {
            #expect(Self.exchange(status, body) == .unavailable("status \(status)", isAnswerLost: false))
        }
    }

    @Test func whatIsTooLargeIsLost() {
        #expect(Self.response(200, nil).exchangeAnswer == .unavailable("200 too large", isAnswerLost: true))
        #expect(Self.response(400, nil).exchangeAnswer == .unavailable("400 too large", isAnswerLost: false))
    }

    @Test func honoursRetryAfter() {
        let (throttled, busy) = (Self.response(429, nil, retryAfter: "120"), Self.response(503, nil, retryAfter: "7"))
        #expect(throttled.exchangeAnswer == .throttled(retryAfter: .seconds(120)))
        #expect(throttled.revokeAnswer == .throttled(retryAfter: .seconds(120)))
        #expect(busy.exchangeAnswer == .unavailable("status 503", isAnswerLost: false, retryAfter: .seconds(7)))
        #expect(busy.revokeAnswer == .unavailable("status 503", isAnswerLost: false, retryAfter: .seconds(7)))
    }

    @Test(arguments: ["invalid_grant", "invalid_client", "server_error", "odd \(code)"]) func repeatsNoCode(_ error: String) {
        let answer = Self.exchange(400, Self.complaint(error, "The code \(Self.code) has already been used.\n"))
        #expect(!"\(answer)".contains(Self.code))
        #expect(!"\(answer)".contains("\n"))
    }

    @Test func survivesMutation() {
        var generator = SeededGenerator(seed: 12)
        let bodies = [
            #"{"refresh_token":"r","id_token":"\#(Self.idToken)"}"#, Self.complaint("invalid_grant", "The code has already been used."),
        ]
        for body in bodies {
            for _ in 0..<1000 {
                let response = Self.response([200, 400].randomElement(using: &generator)!, mutated(Array(body.utf8), using: &generator))
                _ = (response.exchangeAnswer, response.revokeAnswer)
            }
        }
    }

    // MARK: Revocations

    @Test(arguments: [
        (200, "", EndpointAnswer<RevokeNews>.accepted), (200, "<html>", .accepted),
        (400, complaint("invalid_client"), .misconfigured("invalid_client")),
        (400, complaint("unauthorized_client"), .misconfigured("unauthorized_client")),
        (400, complaint("invalid_grant"), .unavailable("invalid_grant", isAnswerLost: false)),
        (400, complaint("invalid_request"), .unavailable("invalid_request", isAnswerLost: false)),
        (400, "", .unavailable("400 without JSON", isAnswerLost: false)), (302, "", .unavailable("status 302", isAnswerLost: false)),
        (401, complaint("invalid_client"), .unavailable("status 401", isAnswerLost: false)),
        (500, "<html>", .unavailable("status 500", isAnswerLost: false)),
    ])
    func classifiesRevocations(_ status: Int, _ body: String, _ expected: EndpointAnswer<RevokeNews>) {
        #expect(Self.response(status, Array(body.utf8)).revokeAnswer == expected)
    }
}
