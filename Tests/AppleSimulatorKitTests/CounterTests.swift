// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import DaemonHarness
import NIOCore
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct CounterTests {
    @Test func requestsAreCountedByEndpointAndStatus() async throws {
        let user = try simulator.createUser()
        _ = try await backend.refresh(user.refreshToken)
        _ = try await backend.refresh("r0123")
        _ = try await backend.revoke("r0123")
        _ = try await backend.get("/auth/keys")
        simulator.script(.answer(429, count: 1))
        _ = try await backend.refresh(user.refreshToken)
        let counters = simulator.world.counters
        #expect(counters.requests == [.token: ["200": 1, "400": 1, "429": 1], .revoke: ["200": 1], .keys: ["200": 1]])
        #expect(counters.errors == ["invalid_grant": 1])
        #expect(counters.faults == 1)
        #expect(counters.anonymousRequests == 0)
        #expect(counters.inFlight == 0)
        #expect(counters.peakInFlight == 1)
        simulator.withWorld { $0.counters.reset() }
        #expect(simulator.world.counters == Counters())
    }

    @Test func callersAreToldApartAndWhoComesInBetweenIsCounted() {
        var traffic = Traffic()
        /// - Parameter at: in milliseconds.
        func ask(_ caller: String, at: Int64, isCode: Bool = false) {
            traffic.record(isCode: isCode, of: caller, at: Moment(milliseconds: at))
        }
        for at: Int64 in [0, 400, 999, 1000] { ask("one", at: at) }
        ask("one", at: 1001, isCode: true)
        #expect((traffic.mostOthersInASecond, traffic.mostCodesInASecond) == (3, 1))
        #expect((traffic.handovers, traffic.strays.count) == (0, 0))
        ask("two", at: 1501)
        ask("one", at: 1502)
        ask("one", at: 2000)
        ask("two", at: 2001)
        #expect(traffic.handovers == 1)
        #expect(traffic.strays.map(\.at.milliseconds) == [1502, 2000])
        #expect(traffic.strays.allSatisfy { $0.caller == "one" })
        ask("one", at: 2501)
        #expect((traffic.handovers, traffic.strays.count) == (2, 2))
    }

    @Test func codesAreCountedByWhatBecameOfThem() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        let web = try simulator.createUser(SignInOptions(credential: .code, redirectURI: "https://example.com/back"))
        _ = try await backend.redeem(user.code, clientID: "com.example.web")
        _ = try await backend.redeem(user.code, secret: "x")
        _ = try await backend.redeem(user.code, redirectURI: "")
        _ = try await backend.redeem(web.code)
        _ = try await backend.redeem(nil)
        simulator.script(.reset(count: 1).afterObeying())
        await #expect(throws: (any Error).self) { try await backend.redeem(user.code) }
        _ = try await backend.redeem(user.code)
        _ = try await backend.redeem("c0123")
        // Scripted answers, and requests that are no exchange, do not count.
        simulator.script(.error("invalid_grant", count: 1))
        _ = try await backend.redeem(user.code)
        _ = try await backend.refresh("r0123")

        let codes = simulator.world.counters.codes
        #expect(codes.redeemed == 1)
        #expect(codes.refused == [.clientMismatch: 1, .invalidClient: 1, .redirectMismatch: 1, .invalidRequest: 2, .used: 1, .dead: 1])
        #expect(try simulator.world.truth(of: user.userID).credentials.map(\.exchanges) == [6])
        #expect(try simulator.world.truth(of: web.userID).credentials.map(\.exchanges) == [1])
    }

    @Test func revocationsAreCountedAndSoAreThoseThatEndAConsent() async throws {
        let users = try simulator.createUsers(2)
        _ = try await backend.revoke("rubbish")
        _ = try await backend.revoke(users[0].refreshToken, clientID: "com.example.web")
        _ = try await backend.revoke(users[0].refreshToken, secret: "x")
        #expect(simulator.world.counters.revocations.effective == 0)
        simulator.script(.reset(count: 1).afterObeying())
        await #expect(throws: (any Error).self) { try await backend.revoke(users[0].refreshToken) }
        _ = try await backend.revoke(users[0].refreshToken)
        let token = try await backend.refresh(users[1].refreshToken)["access_token"]
        simulator.script(.answer(503, count: 1))
        _ = try await backend.revoke(token)
        _ = try await backend.revoke(token)

        #expect(simulator.world.counters.revocations.asked == 6)
        #expect(simulator.world.counters.revocations.effective == 2)
        #expect(simulator.world.truth.map { $0.credentials[0].revocations } == [4, 2])
        #expect(simulator.world.truth.map { $0.credentials[0].exchanges } == [0, 0])
    }

    @Test func aRequestWithoutAUserAgentIsNoticed() async throws {
        let request = HTTPClientRequest(url: backend.baseURL + "/auth/keys")
        _ = try await HTTPClient.shared.execute(request, timeout: .seconds(30)).body.collect(upTo: 65_536)
        #expect(simulator.world.counters.anonymousRequests == 1)
    }

    @Test func refreshesAreCountedAndAnAnswerIsToldFromAMereRequest() async throws {
        let user = try simulator.createUser()
        #expect(simulator.world.shortestRefreshGap == nil)
        _ = try await backend.refresh(user.refreshToken)
        simulator.script(.answer(503, count: 1))
        _ = try await backend.refresh(user.refreshToken)
        _ = try await backend.refresh(user.refreshToken, secret: "bad")
        simulator.withWorld { $0.clockOffset = .seconds(86_400) }
        _ = try await simulator.notify(RevokeConsent(), of: .these([user.userID]))
        _ = try await backend.refresh(user.refreshToken)
        let refreshes = try simulator.world.truth(of: user.userID).credentials[0].refreshes
        #expect(refreshes.requests == 4)
        #expect(refreshes.answers == 2)
        #expect(refreshes.answeredAt.count == 2)
        let gap = try #require(simulator.world.shortestRefreshGap)
        #expect(gap >= .seconds(86_400) && gap < .seconds(86_460))
    }

    @Test func theMostRequestsInFlightAreKnown() async throws {
        simulator.script(.hang(count: 3))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 1...3 { group.addTask { _ = try? await backend.get("/auth/keys", timeout: .seconds(300)) } }
            try await eventually { simulator.world.counters.inFlight >= 3 }
            group.cancelAll()
        }
        #expect(simulator.world.counters.peakInFlight == 3)
    }

    @Test func theDateOfAnAnswerIsApples() async throws {
        simulator.withWorld { $0.clockOffset = .milliseconds(951_782_400_000 - Moment.now().milliseconds) }
        let date = try await backend.get("/auth/keys").header("Date")
        #expect(date?.hasPrefix("Tue, 29 Feb 2000 00:0") == true)
    }
}
