// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import SQLiteStore

/// The number that tells of other processes' commits.
@Suite struct CommitCountTests {
    @Test func followsEveryCommit() async throws {
        let file = try FileUnderTest()
        let first = try await file.sqlite.commitCount()
        #expect(try await file.sqlite.commitCount() == first)
        try await file.store.receive()
        let second = try await file.sqlite.commitCount()
        #expect(second != first)
        _ = try await file.store.count("notification_queue")
        #expect(try await file.sqlite.commitCount() == second)
        try await file.store.grant()
        #expect(try await file.sqlite.commitCount() != second)
    }

    @Test func standsStillInMemory() async throws {
        let store = try SQLiteStore.inMemory()
        #expect(try await store.commitCount() == store.commitCount())
    }
}
