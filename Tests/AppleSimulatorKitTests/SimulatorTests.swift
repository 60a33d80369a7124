// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Logging
import ServiceLifecycle
import Testing

@testable import AppleSimulatorKit

struct SimulatorTests {
    private let backend: Backend
    private let simulator: AppleSimulator

    init() async throws { (backend, simulator) = try await startBackend() }

    @Test func aTakenPortIsAnError() async throws {
        let port = try #require(Int(backend.baseURL.split(separator: ":").last ?? ""))
        await #expect(throws: (any Error).self) {
            _ = try await startBackend { $0.port = port }
            Issue.record("Two simulators on one port")
        }
    }

    @Test func aGracefulShutdownWaitsForNobodyWhoHangs() async throws {
        let (listening, announcement) = AsyncStream.makeStream(of: String.self)
        let key = ClientKey.generate()
        var configuration = SimulatorConfiguration(groups: [AppGroup(keys: [key.registered])])
        configuration.signingKeyCount = 1
        let simulator = try AppleSimulator(configuration) { announcement.yield($0) }
        simulator.script(.hang(count: 1))
        let services = ServiceGroup(services: [simulator], logger: Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() }))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await services.run() }
            let backend = Backend(baseURL: try #require(await listening.first { _ in true }), key: key)
            group.addTask { _ = try? await backend.get("/auth/keys") }
            try await eventually { simulator.world.counters.inFlight > 0 }
            #expect(try await backend.get("/auth/keys").status == 200)
            await services.triggerGracefulShutdown()
            try await group.waitForAll()
        }
        #expect(simulator.world.counters.requests == [.keys: ["200": 1, "hang": 1]])
    }

    @Test func twoSimulatorsAreTwoWorlds() async throws {
        let (first, simulator) = try await startBackend()
        let user = try simulator.createUser()
        let (second, _) = try await startBackend()
        let there = try await second.refresh(user.refreshToken)
        let here = try await first.refresh(user.refreshToken)
        #expect(there.status == 400 && here.status == 200)
    }
}
