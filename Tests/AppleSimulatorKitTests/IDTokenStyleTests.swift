// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import JWTKit
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct IDTokenStyleTests {
    private static let coded = SignInOptions(credential: .code, nonce: "n-0S6_WzA2Mj")

    @Test(arguments: IDTokenStyle.allCases) func allTheRestOfTheAnswerIsRightAndSoIsTheNext(style: IDTokenStyle) async throws {
        let users = try simulator.createUsers(2, Self.coded)
        simulator.script(.idToken(style, count: 1))
        let answer = try await backend.redeem(users[0].code)
        #expect(answer.status == 200)
        #expect(try await backend.refresh(answer["refresh_token"]).status == 200)
        #expect(try await backend.revoke(answer["refresh_token"]).status == 200)
        #expect(try await backend.refresh(answer["refresh_token"])["error"] == "invalid_grant")

        let next = try await backend.redeem(users[1].code)
        #expect(try Self.oddClaims(of: next, to: users[1]).isEmpty)
        #expect(try await Self.isGenuine(next, to: backend))
        #expect(simulator.world.counters.faults == 1)
    }

    @Test(
        arguments: [
            (.anotherSubject, ["sub"]), (.anotherAudience, ["aud"]), (.anotherIssuer, ["iss"]), (.anotherNonce, ["nonce"]),
            (.missingNonce, ["nonce"]), (.expired, ["iat", "exp"]), (.issuedInFuture, ["iat", "exp"]),
            (.nonceUnsupported, ["nonce", "nonce_supported"]), (.stringFlags, ["email_verified", "is_private_email"]),
        ] as [(IDTokenStyle, Set<String>)]
    )
    func oneThingIsOddAndSigned(style: IDTokenStyle, odd: Set<String>) async throws {
        let user = try simulator.createUser(Self.coded)
        simulator.script(.idToken(style))
        let answer = try await backend.redeem(user.code)
        #expect(try Self.oddClaims(of: answer, to: user) == odd)
        #expect(try await Self.isGenuine(answer, to: backend))
    }

    @Test func theOddThingsAreWhatTheirNamesSay() async throws {
        func claims(_ style: IDTokenStyle) async throws -> [String: Any] {
            let user = try simulator.createUser(Self.coded)
            simulator.script(.idToken(style, count: 1))
            return try await backend.redeem(user.code).claims
        }
        #expect(try await claims(.anotherAudience)["aud"] as? String == "com.example.web")
        #expect(try await claims(.missingNonce)["nonce"] == nil)
        #expect(try await claims(.nonceUnsupported)["nonce_supported"] as? Bool == false)
        #expect(try await claims(.stringFlags)["is_private_email"] as? String == "true")
        let now = Int(Date().timeIntervalSince1970)
        let (old, young) = (try await claims(.expired), try await claims(.issuedInFuture))
        #expect(old["exp"] as? Int ?? .max < now - 86_400)
        #expect(young["iat"] as? Int ?? 0 > now + 3600)
    }

    @Test(arguments: [IDTokenStyle.forged, .unknownKey]) func aStrangersSignatureVerifiesNothing(style: IDTokenStyle) async throws {
        let user = try simulator.createUser(Self.coded)
        simulator.script(.idToken(style))
        let answer = try await backend.redeem(user.code)
        #expect(try Self.oddClaims(of: answer, to: user).isEmpty)
        let header = try WireJWS.parts(of: answer["id_token"] ?? "").header
        #expect((header["kid"] as? String == simulator.world.signingKeys.ids.last) == (style == .forged))
        #expect(try await !Self.isGenuine(answer, to: backend))
    }

    @Test func thereMayBeNoneOrNoJWT() async throws {
        let users = try simulator.createUsers(2, Self.coded)
        simulator.script(.idToken(.missing, count: 1))
        simulator.script(.idToken(.notAJWT, count: 1))
        #expect(try await backend.redeem(users[0].code)["id_token"] == nil)
        #expect(try await backend.redeem(users[1].code)["id_token"] == "no JWT")
    }

    @Test func itMeetsCodesAndOnlyThoseOfWhomItIsAbout() async throws {
        let living = try simulator.createUser()
        let users = try simulator.createUsers(2, Self.coded)
        let web = try simulator.createUser(SignInOptions(clientID: "com.example.web", credential: .code))
        simulator.script(.idToken(.missing, count: 1).of(users[1].userID))
        simulator.script(.idToken(.missing).with { $0.clientID = "com.example.web" })
        #expect(try await backend.refresh(living.refreshToken)["id_token"] != nil)
        #expect(try await backend.redeem(users[0].code)["id_token"] != nil)
        #expect(try await backend.redeem(users[1].code)["id_token"] == nil)
        #expect(try await backend.redeem(web.code, clientID: "com.example.web")["id_token"] == nil)
    }

    @Test func aRefreshCanBeMetTooAndOnceIsNotForever() async throws {
        let user = try simulator.createUser()
        _ = try await backend.refresh(user.refreshToken)
        simulator.script(Fault { ($0.idToken, $0.count) = (.anotherSubject, 1) })
        #expect(try await backend.get("/auth/keys").status == 200)
        let odd = try await backend.refresh(user.refreshToken).claims["sub"] as? String
        #expect(odd != nil && odd != user.userID)
        let usual = try await backend.refresh(user.refreshToken)
        #expect(try usual.claims["sub"] as? String == user.userID)
        #expect(try await backend.revoke(usual["access_token"]).status == 200)
        #expect(simulator.world.counters.revocations.effective == 1)
    }

    /// The claims that do not fit the sign-in and the clock.
    private static func oddClaims(of answer: Answer, to user: SignIn) throws -> Set<String> {
        let claims = try answer.claims
        let now = Int(Date().timeIntervalSince1970)
        func isNear(_ name: String, _ moment: Int) -> Bool { (claims[name] as? Int).map { abs($0 - moment) < 600 } ?? false }
        let isRight: [String: Bool] = [
            "iss": claims["iss"] as? String == "https://appleid.apple.com", "sub": claims["sub"] as? String == user.userID,
            "aud": claims["aud"] as? String == user.clientID, "iat": isNear("iat", now), "exp": isNear("exp", now + 86_400),
            "nonce": claims["nonce"] as? String == user.nonce, "nonce_supported": claims["nonce_supported"] as? Bool == true,
            "email": claims["email"] as? String == user.email, "email_verified": claims["email_verified"] as? Bool == true,
            "is_private_email": claims["is_private_email"] as? Bool == user.emailIsPrivate,
        ]
        return Set(isRight.filter { !$0.value }.keys).union(Set(claims.keys).subtracting(isRight.keys).subtracting(["at_hash"]))
    }

    private static func isGenuine(_ answer: Answer, to backend: Backend) async throws -> Bool {
        struct Claims: JWTPayload {
            func verify(using algorithm: some JWTAlgorithm) {}
        }
        let keys = try await backend.keys()
        do {
            _ = try await keys.verify(answer["id_token"] ?? "", as: Claims.self)
            return true
        } catch is JWTError {
            return false
        }
    }
}
