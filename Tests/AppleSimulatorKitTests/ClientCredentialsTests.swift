// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

@testable import AppleSimulatorKit

/// `client_credentials`, which is about a key, a team and a client, and about no user.
struct ClientCredentialsTests {
    private let backend: Backend
    private let simulator: AppleSimulator

    init() async throws { (backend, simulator) = try await startBackend() }

    @Test(arguments: ["com.example.app", "com.example.web"]) func aBundleIDAndAServicesIDOfTheGroupAreAccepted(clientID: String)
        async throws
    {
        let answer = try await backend.prove(clientID)
        #expect(answer.status == 200)
        let members = try #require(try JSONSerialization.jsonObject(with: answer.body) as? [String: Any])
        #expect(Set(members.keys) == ["access_token", "token_type", "expires_in"])
        #expect(answer["access_token"]?.isEmpty == false && members["expires_in"] as? Int == 3600)
        #expect(simulator.world.counters.clientCredentials == ["200": 1])
        #expect(simulator.world.counters.requests.isEmpty)
    }

    @Test func everyMistakeInKeyTeamAndClientIsOneMuteWord() async throws {
        let other = ClientKey.generate(id: "OTHER12345")
        let (backend, simulator) = try await startBackend {
            $0.groups.append(AppGroup(teamID: "Z1B2C3D4E5", clientIDs: ["com.other.app"], keys: [other.registered]))
        }
        let mistakes: [(Backend, String, ClientSecretFlaw)] = [
            (Backend(baseURL: backend.baseURL, key: .generate(id: "NOBODY1234")), "com.example.app", .unknownKey),
            (Backend(baseURL: backend.baseURL, key: .generate(id: backend.key.id)), "com.example.app", .badSignature),
            (Backend(baseURL: backend.baseURL, key: backend.key, teamID: "Z1B2C3D4E5"), "com.example.app", .wrongIssuer),
            (Backend(baseURL: backend.baseURL, key: other, teamID: "Z1B2C3D4E5"), "com.example.app", .unknownKey),
            (backend, "com.other.app", .unknownKey),
            (backend, "com.example.service", .unknownClient),
            (backend, "A1B2C3D4E5.com.example.app", .unknownClient),
        ]
        for (wrong, clientID, flaw) in mistakes {
            simulator.withWorld { $0.counters.reset() }
            let answer = try await wrong.prove(clientID)
            #expect(answer.status == 400 && answer.text == #"{"error":"invalid_client"}"#, "\(flaw)")
            #expect(simulator.world.counters.clientSecretFlaws == [flaw: 1])
        }
        #expect(try await Backend(baseURL: backend.baseURL, key: other, teamID: "Z1B2C3D4E5").prove("com.other.app").status == 200)
    }

    @Test func aRevokedKeyIsRefusedAtOnce() async throws {
        let secret = try await backend.secret()
        #expect(try await backend.prove(secret: secret).status == 200)
        try simulator.withWorld { try $0.revokeKey(backend.key.id) }
        #expect(try await backend.prove(secret: secret)["error"] == "invalid_client")
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
