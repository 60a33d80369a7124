// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation
import PostgresStore
import SQLiteStore

extension Workplace {
    /// Opens the store with the daemon's own code. The daemon does not run meanwhile.
    func openStore() throws -> any CredentialStore {
        let store: any CredentialStore =
            try schema.map { try PostgresStore.open(PostgresAddress($0.url, schema: $0.name)) }
            ?? SQLiteStore.open(DatabaseFile(path: folder.databasePath))
        try store.register([AppClients(name: "example", clientIDs: SimulatedApple.clientIDs)])
        return store
    }

    /// The size of the database on disk, in bytes.
    func size() async throws -> Int {
        guard schema != nil else {
            return try FileManager.default.attributesOfItem(atPath: folder.databasePath)[.size] as? Int ?? 0
        }
        return try await withBackend { try await $0.int("SELECT pg_database_size(current_database())") }
    }
}
