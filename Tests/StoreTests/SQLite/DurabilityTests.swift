// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import GRDB
import Testing

@testable import SQLiteStore

/// The settings of an opened file's connections.
@Suite struct DurabilityTests {
    @Test func aCommitIsOnDisk() async throws {
        let file = try FileUnderTest()
        #expect(try await file.pragma("synchronous") == 2)
        #expect(try await file.store.column("PRAGMA journal_mode") == ["wal"])
    }

    @Test func checkpointsAreOursToTime() async throws {
        let file = try FileUnderTest()
        #expect(try await file.pragma("wal_autocheckpoint") == 0)
    }

    @Test func whatIsDeletedIsOverwritten() async throws {
        let file = try FileUnderTest()
        #expect(try await file.pragma("secure_delete") == 1)
        #expect(try await file.pragma("temp_store") == 2)
    }

    @Test func theRestIsAsItShouldBe() async throws {
        let file = try FileUnderTest()
        #expect(try await file.pragma("foreign_keys") == 1)
        #expect(try await file.pragma("busy_timeout") == 5000)
        #expect(try await file.pragma("application_id") == 0x5349_5741)
        #expect(try await file.pragma("user_version") == FrozenDatabases.versions.upperBound)
    }
}
