// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import JWTKit
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct RefreshTests {
    @Test func aLivingTokenGetsA200WithAnIDTokenAndWithoutARefreshToken() async throws {
        let user = try simulator.createUser()
        let answer = try await backend.refresh(user.refreshToken)
        #expect(answer.status == 200 && answer.header("Cache-Control") == "no-store")
        #expect(answer.header("Content-Type") == "application/json;charset=ISO-8859-1")

        let wire = try JSONSerialization.jsonObject(with: answer.body) as? [String: Any] ?? [:]
        #expect(Set(wire.keys) == ["access_token", "token_type", "expires_in", "id_token"])
        #expect(wire["token_type"] as? String == "Bearer" && wire["expires_in"] as? Int == 3600)

        let claims = try await backend.keys().verify(answer["id_token"] ?? "", as: IDToken.self)
        #expect([claims.iss, claims.aud, claims.sub] == ["https://appleid.apple.com", "com.example.app", user.userID])
        #expect(claims.exp == claims.iat + 86_400 && claims.email == user.email && claims.isPrivateEmail == true)
    }

    @Test func anIDTokenMayBeLeftOut() async throws {
        let (backend, simulator) = try await startBackend { $0.refreshCarriesIDToken = false }
        let answer = try await backend.refresh(simulator.createUser().refreshToken)
        #expect(answer.status == 200 && answer["id_token"] == nil && answer["access_token"] != nil, "\(answer.text)")
    }

    @Test func anAnswerIsGivenAgainForAMinuteUnlessItsKeyWasWithdrawn() async throws {
        let user = try simulator.createUser()
        let first = try await backend.refresh(user.refreshToken)
        #expect(try await backend.refresh(user.refreshToken).text == first.text)
        simulator.withWorld { $0.clockOffset = .seconds(61) }
        #expect(try await backend.refresh(user.refreshToken).text != first.text)
        _ = try RotateKeys(keepsFormer: false).happen(in: simulator)
        let third = try await backend.refresh(user.refreshToken)
        _ = try await backend.keys().verify(third["id_token"] ?? "", as: IDToken.self)
    }

    @Test func answersCanBeSignedAhead() async throws {
        let users = try simulator.createUsers(3)
        _ = try simulator.createUser(SignInOptions(credential: .code))
        _ = try await simulator.notify(RevokeConsent(), of: .these([users[0].userID]))
        #expect(try await PrepareAnswers().happen(in: simulator).prepared == 2)
        #expect(try await PrepareAnswers().happen(in: simulator).prepared == 0)
        let answer = try await backend.refresh(users[1].refreshToken)
        let claims = try await backend.keys().verify(answer["id_token"] ?? "", as: IDToken.self)
        #expect(claims.sub == users[1].userID)
    }

    private let body = #"{"error":"invalid_grant","error_description":"The token has expired or has been revoked."}"#

    @Test func aTokenThatIsUnknownDeadOrOfAnotherClientIsDead() async throws {
        let unknown = try await backend.refresh("r0123")
        #expect(unknown.status == 400 && unknown.text == body, "\(unknown.text)")

        let revoked = try simulator.createUser()
        _ = try await simulator.notify(RevokeConsent(), of: .these([revoked.userID]))
        #expect(try await backend.refresh(revoked.refreshToken).text == body)

        let other = try simulator.createUser(SignInOptions(clientID: "com.example.web"))
        #expect(try await backend.refresh(other.refreshToken).text == body)
        #expect(try await backend.refresh(other.refreshToken, clientID: "com.example.web").status == 200)
    }

    @Test func aCodeOrAnAccessTokenIsNoRefreshTokenAndIsNotSpent() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        let early = try await backend.refresh(user.code)
        #expect(early.status == 400 && early.text == body, "\(early.text)")
        let answer = try await backend.redeem(user.code)
        #expect(answer.status == 200)
        #expect(try await backend.refresh(user.code).text == body)
        #expect(try await backend.refresh(answer["access_token"]).text == body)
        #expect(try simulator.world.truth(of: user.userID).credentials.map(\.refreshes.requests) == [0])
        #expect(try await backend.refresh(answer["refresh_token"]).status == 200)
    }

    @Test func theGrantIsJudgedBeforeTheClient() async throws {
        #expect(try await backend.refresh("r0123", clientID: "clientID", secret: "clientSecret")["error"] == "invalid_grant")
        #expect(simulator.world.counters.clientSecretFlaws.isEmpty)

        let good = try await backend.refresh(simulator.createUser().refreshToken, secret: "clientSecret")
        #expect(good.status == 400 && good.text == #"{"error":"invalid_client"}"#, "\(good.text)")
    }

    @Test func aRequestThatIsBrokenIsInvalid() async throws {
        let good = [("grant_type", "refresh_token"), ("client_id", "c"), ("client_secret", "s"), ("refresh_token", "t")]
        for missing in good.indices {
            var fields = good
            fields.remove(at: missing)
            #expect(try await backend.post("/auth/token", fields).text == #"{"error":"invalid_request"}"#)
        }
        #expect(try await backend.post("/auth/token", good + [good[1]])["error"] == "invalid_request")
        #expect(try await backend.post("/auth/token", form: "grant_type=%zz")["error"] == "invalid_request")
    }

    @Test func onlyTwoGrantsAreKnown() async throws {
        let answer = try await backend.post("/auth/token", [("grant_type", "password"), ("client_id", "c"), ("client_secret", "s")])
        #expect(answer.status == 400 && answer.text == #"{"error":"unsupported_grant_type"}"#, "\(answer.text)")
    }

    @Test func aBodyThatIsNoFormIsAnInvalidClient() async throws {
        let answer = try await backend.post("/auth/token", json: #"{"grant_type":"refresh_token"}"#)
        #expect(answer.text == #"{"error":"invalid_client"}"#)
        #expect(simulator.world.counters.clientSecretFlaws == [.notAForm: 1])
    }
}

/// The claims of an id_token, as a careful reader expects them.
struct IDToken: JWTPayload {
    let iss: String
    let aud: String
    let sub: String
    let iat: Int
    let exp: Int
    let email: String?
    let isPrivateEmail: Bool?

    enum CodingKeys: String, CodingKey {
        case iss, aud, sub, iat, exp, email
        case isPrivateEmail = "is_private_email"
    }

    func verify(using algorithm: some JWTAlgorithm) {}
}

@Suite(.simulated) struct RevokeTests {
    @Test func itSays200AndEndsTheConsentToTheWholeAppGroup() async throws {
        let user = try simulator.createUser()
        let web = try simulator.signIn(user.userID, SignInOptions(clientID: "com.example.web"))
        #expect(try await backend.revoke(user.refreshToken).isEmpty200)
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_grant")
        #expect(try await backend.refresh(web.refreshToken, clientID: "com.example.web")["error"] == "invalid_grant")
        #expect(try simulator.world.truth(of: user.userID).credentials.map(\.reason) == [.revokedByApp, .revokedByApp])
        #expect(simulator.world.notifications.all.isEmpty)
        #expect(try await backend.revoke(user.refreshToken).status == 200)
    }

    @Test func anAccessTokenServesAsWell() async throws {
        let user = try simulator.createUser()
        let token = try await backend.refresh(user.refreshToken)["access_token"]
        #expect(try await backend.revoke(token).status == 200)
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_grant")
    }

    @Test func aCodeEndsNothing() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        #expect(try await backend.revoke(user.code).isEmpty200)
        #expect(try await backend.redeem(user.code).status == 200)
    }

    @Test func rubbishGetsAnEmpty200Too() async throws {
        let user = try simulator.createUser()
        #expect(try await backend.revoke(user.refreshToken, clientID: "com.example.web").isEmpty200)
        #expect(try await backend.revoke(user.refreshToken, secret: "clientSecret").isEmpty200)
        #expect(try await backend.revoke("rubbish", clientID: "clientID", secret: "clientSecret").isEmpty200)
        #expect(try await backend.refresh(user.refreshToken).status == 200)
        #expect(simulator.world.counters.clientSecretFlaws == [.malformed: 1])
    }

    @Test func aTokenOfAnotherTeamGetsAnEmpty200AndLivesOn() async throws {
        let otherKey = ClientKey.generate(id: "OTHER12345")
        let (backend, simulator) = try await startBackend {
            $0.groups.append(AppGroup(teamID: "F6G7H8I9J0", clientIDs: ["com.example.other"], keys: [otherKey.registered]))
        }
        let other = Backend(baseURL: backend.baseURL, key: otherKey, teamID: "F6G7H8I9J0", clientID: "com.example.other")
        let stranger = try simulator.createUser(SignInOptions(clientID: "com.example.other"))
        #expect(try await backend.revoke(stranger.refreshToken).isEmpty200)
        #expect(try await other.refresh(stranger.refreshToken).status == 200)
    }

    @Test func nothingAtAllIsAnInvalidClientAndNoTokenAnInvalidRequest() async throws {
        #expect(try await backend.post("/auth/revoke", []).text == #"{"error":"invalid_client"}"#)
        #expect(try await backend.post("/auth/revoke", json: "{}").text == #"{"error":"invalid_client"}"#)
        #expect(try await backend.revoke(nil).text == #"{"error":"invalid_request"}"#)
    }
}
