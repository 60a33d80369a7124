// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import AppleSimulatorKit

struct RevokeTests {
    private let backend: Backend
    private let simulator: AppleSimulator

    init() async throws { (backend, simulator) = try await startBackend() }

    @Test func itSays200AndEndsTheConsentToTheWholeAppGroup() async throws {
        let user = try simulator.createUser()
        let web = try simulator.signIn(user.userID, SignInOptions(clientID: "com.example.web"))
        let answer = try await backend.revoke(user.refreshToken)
        #expect(answer.status == 200)
        #expect(answer.body.isEmpty)
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
        let answer = try await backend.revoke(user.code)
        #expect(answer.status == 200 && answer.body.isEmpty)
        #expect(try await backend.redeem(user.code).status == 200)
    }

    @Test func rubbishGetsAnEmpty200Too() async throws {
        let user = try simulator.createUser()
        let answers = [
            try await backend.revoke(user.refreshToken, clientID: "com.example.web"),
            try await backend.revoke(user.refreshToken, secret: "clientSecret"),
            try await backend.revoke("rubbish", clientID: "clientID", secret: "clientSecret"),
        ]
        #expect(answers.allSatisfy { $0.status == 200 && $0.body.isEmpty })
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
        let answer = try await backend.revoke(stranger.refreshToken)
        #expect(answer.status == 200 && answer.body.isEmpty)
        #expect(try await other.refresh(stranger.refreshToken).status == 200)
    }

    @Test func nothingAtAllIsAnInvalidClientAndNoTokenAnInvalidRequest() async throws {
        let empty = try await backend.post("/auth/revoke", [])
        #expect(empty.text == #"{"error":"invalid_client"}"#)
        #expect(try await backend.post("/auth/revoke", json: "{}").text == #"{"error":"invalid_client"}"#)
        #expect(try await backend.revoke(nil).text == #"{"error":"invalid_request"}"#)
    }

    @Test func itCanCauseANotification() async throws {
        let (backend, simulator) = try await startBackend { $0.revocationNotifies = true }
        let user = try simulator.createUser()
        _ = try await backend.revoke("rubbish")
        #expect(simulator.world.notifications.all.isEmpty)
        _ = try await backend.revoke(user.refreshToken)
        #expect(simulator.world.notifications.all.map(\.type) == ["consent-revoked"])
        #expect(simulator.world.notifications.all.map(\.userID) == [user.userID])
    }
}
