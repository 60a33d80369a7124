// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore
import CredentialTesting
import Crypto
import Testing

@testable import AppleIdentity

@Suite struct AppleTokenEndpointTests {
    private let clock = TestClock(now: AppleFixture.now)
    private let credential = CredentialID(clientID: "com.example.app", userID: AppleFixture.user)
    private let secrets: ClientSecrets
    private let identity: ClientIdentity

    init() throws {
        let key = try ClientSecretKey(id: "ABC123DEFG", text: Secret(P256.Signing.PrivateKey().pemRepresentation))
        secrets = ClientSecrets(teamID: "A1B2C3D4E5", key: key, clock: clock.wallClock)
        identity = secrets.identity(of: "com.example.app")
    }

    private func endpoint(_ transport: ScriptedTransport) -> AppleTokenEndpoint {
        AppleTokenEndpoint(
            url: "https://appleid.apple.com/auth/token",
            revocationURL: "https://appleid.apple.com/auth/revoke",
            secrets: secrets,
            transport: transport,
            clock: clock.wallClock
        )
    }

    /// Expects the one request, and returns the form as it was sent.
    private func form(
        sentBy transport: ScriptedTransport,
        to endpoint: AppleEndpoint = .token,
        _ names: String...,
        at location: SourceLocation = #_sourceLocation
    ) throws -> String {
        let request = try #require(transport.requests.first, sourceLocation: location)
        #expect(transport.requests.count == 1 && request.endpoint == endpoint, sourceLocation: location)
        #expect(request.url == "https://appleid.apple.com/auth/\(endpoint.rawValue)", sourceLocation: location)
        #expect(!"\(request)".contains("eyJ"), sourceLocation: location)
        let form = try #require(request.form, sourceLocation: location)
        #expect(form.fields.map(\.name) == ["client_id", "client_secret"] + names, sourceLocation: location)
        return String(decoding: form.encoded, as: UTF8.self)
    }

    @Test func tellsWhatApplesClockSays() async {
        let date = Timestamp(seconds: 1_750_000_000)
        let transport = ScriptedTransport { _ in
            .success(TransportResponse(status: 200, body: Array(#"{"access_token":"a"}"#.utf8), date: date))
        }
        #expect(await endpoint(transport).refresh(Secret("r"), of: credential).date == date)
    }

    @Test func asksAsAppleDocuments() async throws {
        let transport = ScriptedTransport(status: 200, #"{"access_token":"a"}"#)
        #expect(await endpoint(transport).refresh(Secret("r+/= &é\0"), of: credential) == RefreshResponse(.unnamed, by: identity))
        let form = try form(sentBy: transport, "grant_type", "refresh_token")
        #expect(form.hasPrefix("client_id=com.example.app&client_secret=eyJ"))
        #expect(form.hasSuffix("&grant_type=refresh_token&refresh_token=r%2B%2F%3D%20%26%C3%A9%00"))
    }

    /// A server that quotes the client secret in its complaint.
    private func echo(_ error: String) -> ScriptedTransport {
        ScriptedTransport { request in
            let secret = request.form?.fields.first { $0.name == "client_secret" }?.value.reveal ?? ""
            let body = #"{"error":"\#(error)","error_description":"\#(secret) is used"}"#
            return .success(TransportResponse(status: 400, body: Array(body.utf8)))
        }
    }

    @Test func dropsAnEchoOfWhatWasSent() async throws {
        let refreshed = await endpoint(echo("invalid_client")).refresh(Secret("r"), of: credential)
        #expect(refreshed == RefreshResponse(.misconfigured("invalid_client"), by: identity))
        let exchanged = await endpoint(echo("invalid_grant")).exchange(Secret("c"), redirectURI: nil, of: "com.example.app")
        #expect(exchanged.answer == .refused(.rejectedByApple, detail: "invalid_grant"))
    }

    /// The answer that refuses it tells Apple's time to a host whose clock is ahead.
    @Test func aSecretFromTheFutureIsFollowedByOneOfApplesTime() async {
        let transport = ScriptedTransport { [clock, ahead = clock.now] _ in
            guard clock.now == ahead else { return .success(TransportResponse(status: 200, body: Array(#"{"access_token":"a"}"#.utf8))) }
            clock.set(to: clock.now.advanced(by: .seconds(-90)))
            return .success(TransportResponse(status: 400, body: Array(#"{"error":"invalid_client"}"#.utf8)))
        }
        #expect(await endpoint(transport).refresh(Secret("r"), of: credential) == RefreshResponse(.unnamed, by: identity))
        #expect(transport.requests.count == 2)
    }

    @Test func aRefusedClientIsAskedAboutOnce() async {
        let transport = ScriptedTransport(status: 400, #"{"error":"invalid_client"}"#)
        let response = await endpoint(transport).refresh(Secret("r"), of: credential)
        #expect(response == RefreshResponse(.misconfigured("invalid_client"), by: identity))
        #expect(transport.requests.count == 1)
    }

    // MARK: The client alone

    @Test func provesAClientAsAppleDocuments() async throws {
        let transport = ScriptedTransport(status: 200, #"{"access_token":"a","token_type":"Bearer","expires_in":3600}"#)
        let response = await endpoint(transport).prove("com.example.app")
        #expect(response.answer == .news(.accepted) && response.identity == identity)
        #expect(try form(sentBy: transport, "grant_type", "scope").hasSuffix("&grant_type=client_credentials&scope=user.migration"))
    }

    /// Only `invalid_client` blames key, team or client id.
    @Test(arguments: [
        (400, #"{"error":"invalid_client"}"#, EndpointAnswer<ClientNews>.misconfigured("invalid_client")),
        (400, #"{"error":"unauthorized_client"}"#, .unavailable("unauthorized_client")),
        (400, #"{"error":"invalid_scope"}"#, .unavailable("invalid_scope")),
        (400, #"{"error":"unsupported_grant_type"}"#, .unavailable("unsupported_grant_type")),
        (400, "<html>", .unavailable("400 without JSON")), (200, "{}", .unavailable("200 without access_token")),
        (200, #"{"access_token":""}"#, .unavailable("200 without access_token")),
        (401, #"{"error":"invalid_client"}"#, .unavailable("status 401")), (429, "", .throttled(retryAfter: nil)),
        (503, "", .unavailable("status 503")),
    ])
    func readsTheAnswerAboutAClient(status: Int, body: String, answer: EndpointAnswer<ClientNews>) async {
        #expect(await endpoint(ScriptedTransport(status: status, body)).prove("com.example.app").answer == answer)
    }

    // MARK: Codes and revocations

    private static let tokens = #"{"refresh_token":"r"}"#

    @Test func sendsACodeAsAppleDocuments() async throws {
        let transport = ScriptedTransport(status: 200, Self.tokens)
        let response = await endpoint(transport).exchange(Secret("c+/= &é"), redirectURI: nil, of: "com.example.app")
        #expect(response == ExchangeResponse(.issued(IssuedTokens(refreshToken: Secret("r"), identityToken: nil)), by: identity))
        #expect(try form(sentBy: transport, "grant_type", "code").hasSuffix("&grant_type=authorization_code&code=c%2B%2F%3D%20%26%C3%A9"))
    }

    @Test func namesTheAddressOfReturnWhereThereWasOne() async throws {
        let transport = ScriptedTransport(status: 200, Self.tokens)
        _ = await endpoint(transport).exchange(Secret("c"), redirectURI: "https://a.example/b?c=d", of: "com.example.web")
        let form = try form(sentBy: transport, "grant_type", "code", "redirect_uri")
        #expect(form.hasPrefix("client_id=com.example.web&") && form.hasSuffix("&redirect_uri=https%3A%2F%2Fa.example%2Fb%3Fc%3Dd"))
    }

    @Test func revokesAsAppleDocuments() async throws {
        let transport = ScriptedTransport(status: 200, "")
        #expect(await endpoint(transport).revoke(Secret("r+"), of: "com.example.app") == RevokeResponse(.accepted, by: identity))
        let form = try form(sentBy: transport, to: .revoke, "token", "token_type_hint")
        #expect(form.hasSuffix("&token=r%2B&token_type_hint=refresh_token"))
    }

    /// Apple may have used up a code that it may have received. A code that it has not received is still good.
    @Test(arguments: TransportFailure.allCases)
    func everyFailureIsAnOutcomeThatIsLostWhereItMayHaveArrived(_ failure: TransportFailure) async {
        let transport = ScriptedTransport { _ in .failure(failure) }
        let isLost = [.timeout, .reset, .other].contains(failure)
        let refreshed = await endpoint(transport).refresh(Secret("r"), of: credential)
        #expect(refreshed == RefreshResponse(.unavailable(failure.rawValue, isAnswerLost: isLost), by: identity))
        let exchanged = await endpoint(transport).exchange(Secret("c"), redirectURI: nil, of: "com.example.app")
        #expect(exchanged == ExchangeResponse(.unavailable(failure.rawValue, isAnswerLost: isLost), by: identity))
        let revoked = await endpoint(transport).revoke(Secret("r"), of: "com.example.app")
        #expect(revoked == RevokeResponse(.unavailable(failure.rawValue, isAnswerLost: isLost), by: identity))
    }
}
