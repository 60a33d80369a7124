// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import AppleSimulatorKit

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
