// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation
import JWTKit
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct CodeTests {
    private static func refusal(_ words: String) -> String { #"{"error":"invalid_grant","error_description":"\#(words)"}"# }

    @Test func aCodeBringsARefreshTokenThatWorks() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        #expect(user.refreshToken == nil)
        let answer = try await backend.redeem(user.code)
        #expect(answer.status == 200)
        let claims = try await backend.keys().verify(answer["id_token"] ?? "", as: IDToken.self)
        #expect(claims.sub == user.userID)
        #expect(try await backend.refresh(answer["refresh_token"]).status == 200)
    }

    /// Apple hands both to the device, and a backend may verify the id_token before siwatch exchanges the code.
    @Test func aCodeComesWithTheDevicesIDTokenIfAsked() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code, nonce: "n", withIDToken: true))
        let token = try #require(user.idToken)
        let claims = try await backend.keys().verify(token, as: IDToken.self)
        #expect(claims.sub == user.userID && claims.aud == user.clientID && claims.iss == "https://appleid.apple.com")
        #expect(claims.iat == Int(user.grantedAt.seconds) && claims.exp == claims.iat + 86_400)
        let payload = try WireJWS.parts(of: token).claims
        #expect(payload["nonce"] as? String == "n" && payload["at_hash"] == nil)
        let half = SHA256.hash(data: Data((user.code ?? "").utf8)).prefix(16)
        #expect(payload["c_hash"] as? String == Base64URL.encode(half))
        #expect(try await backend.redeem(user.code).status == 200)
        #expect(try simulator.createUser(SignInOptions(credential: .code)).idToken == nil)
    }

    @Test func aCodeWorksOnce() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        #expect(try await backend.redeem(user.code).status == 200)
        let again = try await backend.redeem(user.code)
        #expect(again.status == 400 && again.text == Self.refusal("The code has already been used."), "\(again.text)")
    }

    @Test func aCodeWorksForFiveMinutes() async throws {
        let users = try simulator.createUsers(2, SignInOptions(credential: .code))
        simulator.withWorld { $0.clockOffset = .seconds(240) }
        #expect(try await backend.redeem(users[0].code).status == 200)
        simulator.withWorld { $0.clockOffset = .seconds(301) }
        #expect(try await backend.redeem(users[1].code).text == Self.refusal("The code has expired or has been revoked."))
    }

    @Test func aCodeThatIsUnknownOrOfASignInThatIsOverIsDead() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        _ = try await simulator.notify(RevokeConsent(), of: .these([user.userID]))
        for code in ["c0123", user.code] {
            #expect(try await backend.redeem(code).text == Self.refusal("The code has expired or has been revoked."))
        }
    }

    @Test func aRefreshTokenOrAnAccessTokenIsNoCode() async throws {
        let answer = try await backend.redeem(simulator.createUser(SignInOptions(credential: .code)).code)
        let user = try simulator.createUser()
        for token in [answer["refresh_token"], answer["access_token"], user.refreshToken] {
            let refused = try await backend.redeem(token)
            #expect(refused.status == 400 && refused.text == Self.refusal("The code has expired or has been revoked."), "\(refused.text)")
        }
    }

    @Test func aCodeOfAnotherClientNamesTheClientThatAsked() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        let answer = try await backend.redeem(user.code, clientID: "com.example.web")
        #expect(answer.text == Self.refusal("client_id mismatch. The code was not issued to com.example.web."))
        #expect(try await backend.redeem(user.code).status == 200)
    }

    @Test func aCodeFromTheWebNeedsItsRedirectURI() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code, redirectURI: "https://example.com/back"))
        let wrong = try await backend.redeem(user.code, redirectURI: "https://example.org/")
        #expect(wrong.text == Self.refusal("redirect_uri mismatch. The code was not issued to https://example.org/."))
        #expect(try await backend.redeem(user.code)["error"] == "invalid_request")
        #expect(try await backend.redeem(user.code, redirectURI: "https://example.com/back").status == 200)
    }

    /// An empty one differs as well, and a native code goes without.
    @Test func aRedirectURIThatDiffersIsNamed() async throws {
        let native = try simulator.createUser(SignInOptions(credential: .code))
        let web = try simulator.createUser(SignInOptions(credential: .code, redirectURI: "https://example.com/back"))
        for (user, address) in [(native, ""), (web, ""), (native, "https://example.org/")] {
            let answer = try await backend.redeem(user.code, redirectURI: address)
            #expect(answer.text == Self.refusal("redirect_uri mismatch. The code was not issued to \(address)."))
        }
        #expect(try await backend.redeem(native.code).status == 200)
    }

    @Test(arguments: ["n-0S6_WzA2Mj", nil])
    func theNonceOfASignInStandsInTheIDTokenOfItsCodeAndInNoLaterOne(_ nonce: String?) async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code, nonce: nonce))
        #expect(user.nonce == nonce)
        let answer = try await backend.redeem(user.code)
        let claims = try answer.claims
        #expect(claims["nonce"] as? String == nonce && claims["nonce_supported"] as? Bool == nonce.map { _ in true })
        let later = try await backend.refresh(answer["refresh_token"]).claims
        #expect(later["nonce"] == nil && later["nonce_supported"] == nil)
    }

    @Test func aBadSecretDoesNotCostTheCode() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        #expect(try await backend.redeem(user.code, secret: "x")["error"] == "invalid_client")
        #expect(try await backend.redeem(user.code).status == 200)
    }
}
