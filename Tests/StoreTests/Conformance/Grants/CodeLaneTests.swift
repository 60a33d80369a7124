// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Grants with a code have a lane of their own.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct CodeLaneTests: ConformanceSuite {
    @Test func waitUntouchedAndInNobodysWay() async throws {
        for number in 1...10 { try await store.grant("user\(number)", code: "c\(number)") }
        try await store.grant(nil, code: "c11")
        let before = try await store.rows("SELECT * FROM grant_queue")
        try await store.grant("last", token: "r")

        let claimed = try await store.claimGrants(upTo: 3)
        #expect(claimed.map { $0.content?.credential.userID } == ["last"])
        #expect(try await store.claimGrants().isEmpty)
        #expect(try await store.rows("SELECT * FROM grant_queue WHERE authorization_code IS NOT NULL") == before)
    }
}
