// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation
import JWTKit
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct ClientSecretTests {
    /// Sends a good token with this secret, and returns the flaw that the simulator saw behind Apple's mute `invalid_client`.
    private func flaw(of secret: String) async throws -> ClientSecretFlaw? {
        simulator.withWorld { $0.counters.reset() }
        let answer = try await backend.refresh(simulator.createUser().refreshToken, secret: secret)
        if answer.status == 200 { return nil }
        #expect(answer.text == #"{"error":"invalid_client"}"#)
        let flaws = simulator.world.counters.clientSecretFlaws
        #expect(flaws.values.reduce(0, +) == 1)
        return flaws.keys.first
    }

    private func flaw(changing change: (inout Backend.SecretClaims) -> Void) async throws -> ClientSecretFlaw? {
        var claims = backend.claims()
        change(&claims)
        return try await flaw(of: backend.sign(claims))
    }

    @Test(arguments: ["x", "a.b.c", "...", "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ.e30.AA"])
    func rubbishIsRefused(secret: String) async throws {
        #expect(try await flaw(of: secret) == .malformed)
    }

    @Test func eachClaimIsExamined() async throws {
        let now = Int(Date().timeIntervalSince1970)
        #expect(try await flaw { $0.iss = "ZZZZZZZZZZ" } == .wrongIssuer, "another team")
        #expect(try await flaw { $0.aud = "https://account.apple.com" } == .wrongAudience)
        #expect(try await flaw { $0.sub = "com.example.web" } == .wrongSubject, "the secret of another client")
        #expect(try await flaw { $0.iat = now + 90 } == .issuedInFuture)
        #expect(try await flaw { $0.exp = now - 1 } == .expired)
        #expect(try await flaw { $0.exp = now + 15_777_000 - 30 } == nil, "six months are the limit")
        #expect(try await flaw { $0.exp = now + 15_777_000 + 30 } == .livesTooLong)
    }

    @Test func theDERFormOfASignatureIsRefused() async throws {
        let parts = try await backend.secret().split(separator: ".")
        let signed = "\(parts[0]).\(parts[1])"
        let signature = try backend.key.privateKey.signature(for: Data(signed.utf8))
        #expect(try await flaw(of: signed + "." + signature.derRepresentation.base64URL) == .badSignature)
    }

    @Test func anotherAlgorithmIsRefused() async throws {
        let (keys, kid) = (JWTKeyCollection(), JWKIdentifier(string: backend.key.id))
        await keys.add(hmac: "0123456789abcdef0123456789abcdef", digestAlgorithm: .sha256, kid: kid)
        #expect(try await flaw(of: keys.sign(backend.claims(), kid: kid)) == .wrongAlgorithm)
    }

    @Test func applesClockDecidesForARememberedSecretToo() async throws {
        let user = try simulator.createUser()
        let secret = try await backend.secret()
        #expect(try await backend.refresh(user.refreshToken, secret: secret).status == 200)
        simulator.withWorld { $0.clockOffset = .seconds(-120) }
        #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
        simulator.withWorld { $0.clockOffset = .seconds(4000) }
        #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
        #expect(simulator.world.counters.clientSecretFlaws == [.issuedInFuture: 1, .expired: 1])
    }

    @Test func aRememberedSecretOfARevokedKeyIsWorthless() async throws {
        let user = try simulator.createUser()
        let secret = try await backend.secret()
        #expect(try await backend.refresh(user.refreshToken, secret: secret).status == 200)
        #expect(try await backend.prove(secret: secret).status == 200)
        try simulator.withWorld { try $0.revokeKey(backend.key.id) }
        #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
        #expect(try await backend.prove(secret: secret)["error"] == "invalid_client")
        let new = ClientKey.generate(id: "NEWKEY1234")
        try simulator.withWorld { try $0.register(new.registered, for: "com.example.web") }
        #expect(try await Backend(baseURL: backend.baseURL, key: new).refresh(user.refreshToken).status == 200)
    }

    @Test func aKeySurvivesItsFile() throws {
        let key = ClientKey.generate()
        #expect(key.pem.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        #expect(try ClientKey(id: key.id, pem: key.pem).privateKey.rawRepresentation == key.privateKey.rawRepresentation)
    }
}

extension Data {
    /// Written anew, so that it cannot share a mistake with the simulator's own.
    var base64URL: String { base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "") }
}

/// `client_credentials`, which is about a key, a team and a client, and about no user.
@Suite(.simulated) struct ClientCredentialsTests {
    @Test(arguments: ["com.example.app", "com.example.web"])
    func aBundleIDAndAServicesIDOfTheGroupAreAccepted(clientID: String) async throws {
        let answer = try await backend.prove(clientID)
        #expect(answer.status == 200)
        let members = try #require(try JSONSerialization.jsonObject(with: answer.body) as? [String: Any])
        #expect(Set(members.keys) == ["access_token", "token_type", "expires_in"])
        #expect(answer["access_token"]?.isEmpty == false && members["expires_in"] as? Int == 3600)
        #expect(simulator.world.counters.clientCredentials == ["200": 1])
        #expect(simulator.world.counters.requests.isEmpty)
    }

    @Test func everyMistakeInKeyTeamAndClientIsOneMuteWord() async throws {
        let (other, sibling) = (ClientKey.generate(id: "OTHER12345"), ClientKey.generate(id: "SIBLING123"))
        let (backend, simulator) = try await startBackend {
            $0.groups.append(AppGroup(teamID: "Z1B2C3D4E5", clientIDs: ["com.other.app"], keys: [other.registered]))
            $0.groups.append(AppGroup(clientIDs: ["com.example.other"], keys: [sibling.registered]))
        }
        let mistakes: [(Backend, String, ClientSecretFlaw)] = [
            (Backend(baseURL: backend.baseURL, key: .generate(id: "NOBODY1234")), "com.example.app", .unknownKey),
            (Backend(baseURL: backend.baseURL, key: .generate(id: backend.key.id)), "com.example.app", .badSignature),
            (Backend(baseURL: backend.baseURL, key: backend.key, teamID: "Z1B2C3D4E5"), "com.example.app", .wrongIssuer),
            (Backend(baseURL: backend.baseURL, key: other, teamID: "Z1B2C3D4E5"), "com.example.app", .unknownKey),
            (Backend(baseURL: backend.baseURL, key: sibling), "com.example.app", .unknownKey), (backend, "com.other.app", .unknownKey),
            (backend, "com.example.service", .unknownClient), (backend, "A1B2C3D4E5.com.example.app", .unknownClient),
        ]
        let token = try simulator.createUser().refreshToken
        for (wrong, clientID, flaw) in mistakes {
            simulator.withWorld { $0.counters.reset() }
            var answers = [try await wrong.prove(clientID)]
            if clientID == backend.clientID { answers.append(try await wrong.refresh(token)) }
            for answer in answers { #expect(answer.status == 400 && answer["error"] == "invalid_client", "\(flaw)") }
            #expect(answers[0].text == #"{"error":"invalid_client"}"#)
            #expect(simulator.world.counters.clientSecretFlaws == [flaw: answers.count])
        }
        #expect(try await Backend(baseURL: backend.baseURL, key: other, teamID: "Z1B2C3D4E5").prove("com.other.app").status == 200)
    }

    @Test func anotherScopeAndNoScopeAreRefused() async throws {
        let (other, none) = (try await backend.prove(scope: "openid"), try await backend.prove(scope: ""))
        #expect(other["error"] == "invalid_scope" && none["error"] == "invalid_request")
        #expect(simulator.world.counters.clientCredentials == ["400": 2])
    }

    /// siwatch asks at a time of its own, so a fault that a test means for its users does not hit the question.
    @Test func onlyAFaultThatNamesTheGrantHitsIt() async throws {
        simulator.script(.answer(500).at(.token))
        #expect(try await backend.prove().status == 200)
        simulator.withWorld { $0.faults.clear() }
        simulator.script(.answer(503, count: 1).ofClientCredentials)
        simulator.script(.answer(429, headers: ["Retry-After": "9"], count: 1).ofClientCredentials)
        #expect(try await backend.refresh(simulator.createUser().refreshToken).status == 200)
        #expect(try await backend.prove().status == 503)
        let throttled = try await backend.prove()
        #expect(throttled.status == 429 && throttled.header("Retry-After") == "9")
        #expect(try await backend.prove().status == 200)
    }
}
