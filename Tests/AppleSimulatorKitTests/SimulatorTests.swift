// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Logging
import ServiceLifecycle
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct SimulatorTests {
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

/// openapi.json describes the control routes as they are.
struct ControlDocumentTests {
    private struct Document: Decodable {
        let paths: [String: [String: Operation]]
        let components: Components

        struct Operation: Decodable { let requestBody: Body? }
        struct Body: Decodable { let content: [String: Content] }
        struct Content: Decodable { let schema: Reference }
        struct Components: Decodable { let schemas: [String: Schema] }
        struct Schema: Decodable { let properties: [String: Property]? }
        struct Property: Decodable {}
        struct Reference: Decodable {
            let schema: String

            enum CodingKeys: String, CodingKey {
                case schema = "$ref"
            }
        }
    }

    @Test func theDocumentHasEveryRouteAndEveryMember() async throws {
        let (backend, _) = try await startBackend()
        let document = try await backend.get("/simulator/openapi.json").decoded(Document.self)
        for message in ControlRoutes.messages {
            let parts = message.route.split(separator: " ").map(String.init)
            let path = "/simulator/" + parts[1].replacing(":id", with: "{id}")
            let operation = try #require(document.paths[path]?[parts[0].lowercased()], "\(message.route)")
            let name = operation.requestBody?.content["application/json"]?.schema.schema.split(separator: "/").last.map(String.init)
            let properties = name.flatMap { document.components.schemas[$0]?.properties } ?? [:]
            #expect(Set(properties.keys) == Set(message.members), "\(message.route)")
        }
        #expect(document.paths.values.map(\.count).reduce(0, +) == ControlRoutes.messages.count + 1)
    }
}
