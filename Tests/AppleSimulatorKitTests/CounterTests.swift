// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import AsyncHTTPClient
import NIOCore
import Testing

struct CounterTests {
    @Test func requestsAreCountedByEndpointAndStatus() async throws {
        try await withBackend { backend, simulator in
            let user = try simulator.createUser()
            _ = try await backend.refresh(user.refreshToken)
            _ = try await backend.refresh("r0123")
            _ = try await backend.revoke("r0123")
            _ = try await backend.get("/auth/keys")
            simulator.script(.answer(429, count: 1))
            _ = try await backend.refresh(user.refreshToken)
            let counters = simulator.counters
            #expect(counters.requests == [.token: ["200": 1, "400": 1, "429": 1], .revoke: ["200": 1], .keys: ["200": 1]])
            #expect(counters.errors == ["invalid_grant": 1])
            #expect(counters.faults == 1)
            #expect(counters.anonymousRequests == 0)
            #expect(counters.inFlight == 0)
            #expect(counters.peakInFlight == 1)
            simulator.resetCounters()
            #expect(simulator.counters == Counters())
        }
    }

    @Test func aRequestWithoutAUserAgentIsNoticed() async throws {
        try await withBackend { backend, simulator in
            let request = HTTPClientRequest(url: backend.baseURL + "/auth/keys")
            _ = try await HTTPClient.shared.execute(request, timeout: .seconds(30)).body.collect(upTo: 65_536)
            #expect(simulator.counters.anonymousRequests == 1)
        }
    }

    @Test func refreshesAreCountedAndAnAnswerIsToldFromAMereRequest() async throws {
        try await withBackend { backend, simulator in
            let user = try simulator.createUser()
            #expect(simulator.shortestRefreshGap == nil)
            _ = try await backend.refresh(user.refreshToken)
            simulator.script(.answer(503, count: 1))
            _ = try await backend.refresh(user.refreshToken)
            _ = try await backend.refresh(user.refreshToken, secret: "bad")
            simulator.clockOffset = .seconds(86_400)
            _ = try await simulator.revokeConsent(of: .these([user.userID]))
            _ = try await backend.refresh(user.refreshToken)
            let refreshes = try simulator.truth(of: user.userID).credentials[0].refreshes
            #expect(refreshes.requests == 4)
            #expect(refreshes.answers == 2)
            #expect(refreshes.answeredAt.count == 2)
            let gap = try #require(simulator.shortestRefreshGap)
            #expect(gap >= .seconds(86_400) && gap < .seconds(86_460))
        }
    }

    @Test func theMostRequestsInFlightAreKnown() async throws {
        try await withBackend { backend, simulator in
            simulator.script(.hang(count: 3))
            await withTaskGroup(of: Void.self) { group in
                for _ in 1...3 {
                    group.addTask { _ = try? await backend.get("/auth/keys", timeout: .milliseconds(300)) }
                }
            }
            #expect(simulator.counters.peakInFlight == 3)
        }
    }

    @Test func theDateOfAnAnswerIsApples() async throws {
        try await withBackend { backend, simulator in
            simulator.clockOffset = .milliseconds(Moment(milliseconds: 951_782_400_000).milliseconds - Moment.now().milliseconds)
            let date = try await backend.get("/auth/keys").header("Date")
            #expect(date?.hasPrefix("Tue, 29 Feb 2000 00:0") == true)
        }
    }
}
