// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore
import CredentialTesting
import Testing

@testable import AppleIdentity

@Suite struct TokenResponseTests {
    private static let token = "r0123456789abcdef0123456789abcdef.0.mruy.AAAAAAAAAAAAAAAAAAAAAA"
    private static let now = AppleFixture.now

    private static func outcome(_ status: Int, _ body: [UInt8]?, retryAfter: String? = nil) -> EndpointAnswer<RefreshNews> {
        let response = TransportResponse(status: status, body: body, retryAfter: retryAfter)
        let secrets = [Secret(token), Secret(AppleFixture.user)]
        return TokenResponse(response: response, secrets: secrets, receivedAt: now).refreshAnswer(for: AppleFixture.user)
    }

    private static func outcome(_ status: Int, _ body: String) -> EndpointAnswer<RefreshNews> { outcome(status, Array(body.utf8)) }

    private static func success(_ idToken: String?) -> String {
        #"{"access_token":"a","token_type":"Bearer","expires_in":3600\#(idToken.map { #","id_token":\#($0)"# } ?? "")}"#
    }

    private static func idToken(sub: String) -> String { quoted("e30." + Base64URL.encode(#"{"sub":\#(sub)}"#.utf8) + ".AA") }

    @Test(arguments: [
        (success(nil), EndpointAnswer<RefreshNews>.unnamed), (success("null"), .unnamed),
        (success(idToken(sub: quoted(AppleFixture.user))), .valid), (success(idToken(sub: #""000000.other.0000""#)), .anotherUser),
        (success(idToken(sub: #""""#)), .anotherUser),
        (success(idToken(sub: "7")), .unavailable("200 with an unreadable id_token")),
        (success(#""a.b""#), .unavailable("200 with an unreadable id_token")),
        (success("{}"), .unavailable("200 with an unreadable id_token")),
        ("", .unavailable("200 without JSON")), ("<html>Apple</html>", .unavailable("200 without JSON")),
        ("[]", .unavailable("200 without JSON")), (#"{"access_token":"a","access_token":"b"}"#, .unavailable("200 without JSON")),
        ("{}", .unavailable("200 without access_token")), (#"{"access_token":""}"#, .unavailable("200 without access_token")),
        (#"{"access_token":7}"#, .unavailable("200 without access_token")),
        (#"{"error":"invalid_grant"}"#, .unavailable("200 without access_token")),
    ])
    func classifies200(_ body: String, _ expected: EndpointAnswer<RefreshNews>) {
        #expect(Self.outcome(200, body) == expected)
    }

    @Test(arguments: [
        (#"{"error":"invalid_grant"}"#, EndpointAnswer<RefreshNews>.rejected),
        (#"{"error":"invalid_grant","error_description":null}"#, .rejected),
        (#"{"error":"invalid_grant","error_description":""}"#, .rejected),
        (#"{"error":"invalid_grant","error_description":"The token has expired or has been revoked."}"#, .rejected),
        (#"{"error":"invalid_grant","error_description":7}"#, .ambiguous("invalid_grant")),
        (#"{"error":"invalid_request"}"#, .ambiguous("invalid_request")),
        (#"{"error":"invalid_client"}"#, .misconfigured("invalid_client")),
        (#"{"error":"unauthorized_client"}"#, .misconfigured("unauthorized_client")),
        (#"{"error":"unsupported_grant_type"}"#, .misconfigured("unsupported_grant_type")),
        (#"{"error":"invalid_scope"}"#, .misconfigured("invalid_scope")),
        (#"{"error":"server_error"}"#, .unavailable("unknown error: server_error")),
        (#"{"error":"Invalid_Grant"}"#, .unavailable("unknown error: Invalid_Grant")),
        (#"{"error":["invalid_grant"]}"#, .unavailable("400 without error")),
        (#"{"error":"invalid_request","error":"invalid_grant"}"#, .unavailable("400 without JSON")),
        ("{}", .unavailable("400 without error")),
        ("", .unavailable("400 without JSON")), ("invalid_grant", .unavailable("400 without JSON")),
        ("<html><body><hr><center>Apple</center></body></html>", .unavailable("400 without JSON")),
    ])
    func classifies400(_ body: String, _ expected: EndpointAnswer<RefreshNews>) {
        #expect(Self.outcome(400, body) == expected)
    }

    @Test(arguments: [
        "client_id mismatch. The code was not issued to com.example.web.", "client_id mismatch. The token was revoked.",
        "redirect_uri mismatch. The code was not issued to https://a.", "The code has expired or has been revoked.",
        "Something nobody has seen.",
    ])
    func believesNoRejectionInOtherWords(_ words: String) {
        let answer = Self.outcome(400, #"{"error":"invalid_grant","error_description":"\#(words)"}"#)
        #expect(answer == .ambiguous("invalid_grant: \(words)"))
    }

    @Test(arguments: [201, 204, 301, 302, 307, 401, 403, 404, 405, 500, 502, 503, 504, 599])
    func saysNothingOfAnyoneOtherwise(_ status: Int) {
        for body in [#"{"error":"invalid_grant"}"#, #"{"access_token":"a"}"#, #"{"error":"invalid_client"}"#, "<html>"] {
            #expect(Self.outcome(status, body) == .unavailable("status \(status)"))
        }
    }

    @Test func neverTakesABodyThatIsTooLarge() {
        #expect(Self.outcome(200, nil) == .unavailable("200 too large"))
        #expect(Self.outcome(400, nil) == .unavailable("400 too large"))
    }

    @Test func honoursRetryAfter() {
        #expect(Self.outcome(429, nil) == .throttled(retryAfter: nil))
        #expect(Self.outcome(429, nil, retryAfter: "120") == .throttled(retryAfter: .seconds(120)))
        #expect(Self.outcome(503, nil, retryAfter: "7") == .unavailable("status 503", retryAfter: .seconds(7)))
        #expect(Self.outcome(400, [], retryAfter: "7") == .unavailable("400 without JSON", retryAfter: .seconds(7)))
    }

    @Test func repeatsNoSecretAndNoControlCharacter() {
        for error in ["invalid_request", "invalid_client", "odd \(Self.token)"] {
            let body = #"{"error":\#(quoted(error)),"error_description":"unknown \#(Self.token)\r\nfor \#(AppleFixture.user)"}"#
            let text = "\(Self.outcome(400, body))"
            #expect(!text.contains(Self.token))
            #expect(!text.contains(AppleFixture.user))
            #expect(!text.contains("\n"))
        }
        let long = #"{"error":"invalid_client","error_description":"\#(String(repeating: "word ", count: 5000))"}"#
        #expect("\(Self.outcome(400, long))".count < 250)
    }

    @Test func survivesMutation() {
        var generator = SeededGenerator(seed: 6)
        for body in [
            Self.success(Self.idToken(sub: quoted(AppleFixture.user))), #"{"error":"invalid_grant","error_description":"The token"}"#,
        ] {
            for _ in 0..<2000 {
                _ = Self.outcome([200, 400].randomElement(using: &generator)!, mutated(Array(body.utf8), using: &generator))
            }
        }
    }
}
