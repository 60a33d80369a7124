// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import GRDB

@testable import SQLiteStore

/// A store in a file, for tests of files alone.
final class FileUnderTest: Sendable {
    let file: TemporaryFile
    let sqlite: SQLiteStore
    let store: StoreUnderTest

    /// - Parameter file: an existing file. It goes with this.
    init(_ file: TemporaryFile? = nil) throws {
        let file = try file ?? .migrated()
        self.file = file
        sqlite = try SQLiteStore.open(DatabaseFile(path: file.path))
        store = try StoreUnderTest(sqlite, door: SQLiteDoor(asBackendOf: file.path)) { file.remove() }
    }

    /// A PRAGMA's value on the writer's connection.
    func pragma(_ name: String) async throws -> Int? {
        try await sqlite.writer.writeWithoutTransaction { db in try Int.fetchOne(db, sql: "PRAGMA \(name)") }
    }

    func setPragma(_ assignment: String) async throws {
        try await sqlite.writer.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA \(assignment)") }
    }

    var isIntact: Bool {
        get async throws { try await store.column("PRAGMA integrity_check") == ["ok"] }
    }
}
