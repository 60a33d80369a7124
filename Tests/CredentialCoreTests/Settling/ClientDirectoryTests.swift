// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A settlement whose app or client is missing would take a row from its queue and write no state. The process stops instead.
@Suite struct ClientDirectoryTests {
    @Test func aSettlementOfAMissingAppStopsTheProcess() async throws {
        let end = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = ClientDirectory(apps: [(1, "example")], clients: [(1, "app", 1)]).app("other")
        }
        #expect(String(decoding: end.standardErrorContent, as: UTF8.self).contains("the app other is not in the directory"))
    }

    @Test func aSettlementOfAMissingClientStopsTheProcess() async throws {
        let end = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = ClientDirectory(apps: [(1, "example")], clients: [(1, "app", 1)]).client("web")
        }
        #expect(String(decoding: end.standardErrorContent, as: UTF8.self).contains("the client web is not in the directory"))
    }

    @Test func aKnownAppAndClientAreFound() {
        let directory = ClientDirectory(apps: [(1, "example")], clients: [(7, "app", 1)])
        #expect(directory.app("example").id == 1)
        #expect(directory.client("app").id == 7 && directory.client("app").app.name == "example")
    }
}
