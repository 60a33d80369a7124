// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation
import JWTKit
import Testing

@testable import AppleSimulatorKit

struct CodeTests {
    private let backend: Backend
    private let simulator: AppleSimulator

    init() async throws { (backend, simulator) = try await startBackend() }
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
        #expect(again.status == 400)
        #expect(again.text == Self.refusal("The code has already been used."))
    }

    @Test func aCodeWorksForFiveMinutes() async throws {
        let users = try simulator.createUsers(2, SignInOptions(credential: .code))
        simulator.withWorld { $0.clockOffset = .seconds(240) }
        #expect(try await backend.redeem(users[0].code).status == 200)
        simulator.withWorld { $0.clockOffset = .seconds(301) }
        let late = try await backend.redeem(users[1].code)
        #expect(late.text == Self.refusal("The code has expired or has been revoked."))
    }

    @Test func aCodeThatIsUnknownOrOfASignInThatIsOverIsDead() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        _ = try await simulator.notify(RevokeConsent(), of: .these([user.userID]))
        for code in ["c0123", user.code] {
            let answer = try await backend.redeem(code)
            #expect(answer.text == Self.refusal("The code has expired or has been revoked."))
        }
    }

    @Test func aRefreshTokenOrAnAccessTokenIsNoCode() async throws {
        let answer = try await backend.redeem(simulator.createUser(SignInOptions(credential: .code)).code)
        let user = try simulator.createUser()
        for token in [answer["refresh_token"], answer["access_token"], user.refreshToken] {
            let refused = try await backend.redeem(token)
            #expect(refused.status == 400)
            #expect(refused.text == Self.refusal("The code has expired or has been revoked."))
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

    @Test func anEmptyRedirectURIIsOneThatDiffers() async throws {
        let native = try simulator.createUser(SignInOptions(credential: .code))
        let web = try simulator.createUser(SignInOptions(credential: .code, redirectURI: "https://example.com/back"))
        for user in [native, web] {
            let answer = try await backend.redeem(user.code, redirectURI: "")
            #expect(answer.text == Self.refusal("redirect_uri mismatch. The code was not issued to ."))
        }
        #expect(try await backend.redeem(native.code).status == 200)
    }

    @Test func theNonceOfASignInStandsInTheIDTokenOfItsCodeAndInNoLaterOne() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code, nonce: "n-0S6_WzA2Mj"))
        #expect(user.nonce == "n-0S6_WzA2Mj")
        let answer = try await backend.redeem(user.code)
        let claims = try answer.claims
        #expect(claims["nonce"] as? String == "n-0S6_WzA2Mj")
        #expect(claims["nonce_supported"] as? Bool == true)
        let later = try await backend.refresh(answer["refresh_token"]).claims
        #expect(later["nonce"] == nil && later["nonce_supported"] == nil)
    }

    @Test func aSignInWithoutANonceHasNoneInItsIDToken() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        #expect(user.nonce == nil)
        let claims = try await backend.redeem(user.code).claims
        #expect(claims["nonce"] == nil && claims["nonce_supported"] == nil)
    }

    @Test func aBadSecretDoesNotCostTheCode() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        #expect(try await backend.redeem(user.code, secret: "x")["error"] == "invalid_client")
        #expect(try await backend.redeem(user.code).status == 200)
    }

    @Test func aNativeCodeGoesWithoutARedirectURI() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        let answer = try await backend.redeem(user.code, redirectURI: "https://example.org/")
        #expect(answer["error_description"] == "redirect_uri mismatch. The code was not issued to https://example.org/.")
    }
}
