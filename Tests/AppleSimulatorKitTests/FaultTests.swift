// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct FaultTests {
    @Test func aScriptedAnswerLastsForItsCountOfRequests() async throws {
        let user = try simulator.createUser()
        simulator.script(.answer(503, headers: ["Retry-After": "7"], body: "<html>", count: 2))
        for _ in 1...2 {
            let answer = try await backend.refresh(user.refreshToken)
            #expect(answer.status == 503)
            #expect(answer.header("Retry-After") == "7")
            #expect(answer.text == "<html>")
        }
        #expect(try await backend.refresh(user.refreshToken).status == 200)
        #expect(simulator.world.faults.all.isEmpty)
    }

    @Test func oneEndpointOneGrantOneClientOrOneUserCanBeMetAlone() async throws {
        let users = try simulator.createUsers(2)
        let web = try simulator.createUser(SignInOptions(clientID: "com.example.web"))
        let coded = try simulator.createUser(SignInOptions(credential: .code))

        simulator.script(.answer(500).at(.keys))
        #expect(try await backend.get("/auth/keys").status == 500)
        #expect(try await backend.refresh(users[0].refreshToken).status == 200)
        simulator.withWorld { $0.faults.clear() }

        simulator.script(.error("invalid_client").of(users[0].userID))
        #expect(try await backend.refresh(users[0].refreshToken).text == #"{"error":"invalid_client"}"#)
        #expect(try await backend.refresh(users[1].refreshToken).status == 200)
        simulator.withWorld { $0.faults.clear() }

        simulator.script(.answer(500).with { $0.clientID = "com.example.web" })
        #expect(try await backend.refresh(web.refreshToken, clientID: "com.example.web").status == 500)
        #expect(try await backend.refresh(users[0].refreshToken).status == 200)
        simulator.withWorld { $0.faults.clear() }

        simulator.script(.answer(500).with { $0.grantType = "authorization_code" })
        #expect(try await backend.refresh(users[0].refreshToken).status == 200)
        #expect(try await backend.redeem(coded.code).status == 500)
    }

    @Test func aShareOfTheUsersIsAlwaysTheSameOnes() async throws {
        let (backend, simulator) = try await startBackend { $0.refreshCarriesIDToken = false }
        let users = try simulator.createUsers(100)
        let secret = try await backend.secret()
        simulator.script(.error("invalid_grant").with { $0.userShare = 0.3 })
        var met: [[Int]] = [[], []]
        for round in met.indices {
            for (index, user) in users.enumerated()
            where try await backend.refresh(user.refreshToken, secret: secret).status == 400 {
                met[round].append(index)
            }
        }
        #expect(met[0] == met[1])
        #expect((10...50).contains(met[0].count))
    }

    @Test func theFirstFaultThatFitsWinsAndCanBeClearedAlone() async throws {
        let first = simulator.script(.answer(500))
        simulator.script(.answer(501))
        #expect(try await backend.get("/auth/keys").status == 500)
        try simulator.withWorld { try $0.faults.clear(first) }
        #expect(try await backend.get("/auth/keys").status == 501)
        #expect(throws: SimulatorError.unknownFault(first)) { try simulator.withWorld { try $0.faults.clear(first) } }
    }

    @Test func aDelayDelaysAndThenAppleAnswers() async throws {
        let user = try simulator.createUser()
        _ = try await backend.refresh(user.refreshToken)
        simulator.script(.delay(.milliseconds(50)))
        let took = try await ContinuousClock().measure {
            let answer = try await backend.refresh(user.refreshToken)
            #expect(answer.status == 200)
        }
        #expect(took >= .milliseconds(50))
    }

    @Test func aResetBreaksTheConnectionBeforeAnyByte() async throws {
        let user = try simulator.createUser()
        simulator.script(.reset(count: 1))
        await #expect(throws: (any Error).self) { try await backend.refresh(user.refreshToken) }
        #expect(simulator.world.counters.requests == [.token: ["reset": 1]])
        #expect(try await backend.refresh(user.refreshToken).status == 200)
    }

    @Test func aCutAnswerBreaksOffInTheMiddleOfItsBody() async throws {
        simulator.script(.answer(200, body: #"{"keys":[]}"#).with { ($0.padding, $0.connection) = (100_000, .cut) })
        await #expect(throws: (any Error).self) { try await backend.get("/auth/keys") }
        #expect(simulator.world.counters.requests == [.keys: ["cut": 1]])
    }

    @Test func aHangOutlastsTheClientAndDoesNotKeepTheSimulatorFromStopping() async throws {
        simulator.script(.hang())
        await #expect(throws: HTTPClientError.self) { try await backend.get("/auth/keys", timeout: .milliseconds(100)) }
    }

    @Test func anAnswerCanGetLostAfterTheRequestWasObeyed() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        simulator.script(.reset(count: 1).afterObeying())
        await #expect(throws: (any Error).self) { try await backend.redeem(user.code) }
        #expect(try await backend.redeem(user.code)["error_description"] == "The code has already been used.")

        let other = try simulator.createUser()
        simulator.script(.reset(count: 1))
        await #expect(throws: (any Error).self) { try await backend.revoke(other.refreshToken) }
        #expect(try await backend.refresh(other.refreshToken).status == 200)
        simulator.script(.reset(count: 1).afterObeying())
        await #expect(throws: (any Error).self) { try await backend.revoke(other.refreshToken) }
        #expect(try await backend.refresh(other.refreshToken)["error"] == "invalid_grant")
    }

    @Test func anAnswerCanBeHuge() async throws {
        simulator.script(.answer(200, body: "{}").with { $0.padding = 10_000_000 })
        let answer = try await backend.get("/auth/keys")
        #expect(answer.status == 200)
        #expect(answer.body.count == 10_000_002)
    }
}
