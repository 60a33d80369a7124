// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import GRDB
import NIOConcurrencyHelpers
import SQLiteStore

/// Databases in memory for one simulation after another: to compile a statement anew costs more than to run it a hundred times.
enum MemoryDatabases {
    private static let idle = NIOLockedValueBox<[DatabaseQueue]>([])

    static func take() throws -> DatabaseQueue {
        try idle.withLockedValue { $0.popLast() } ?? SQLiteStore.memory()
    }

    /// Empties it for the next one.
    static func giveBack(_ database: DatabaseQueue) throws {
        try database.write { db in
            // Who refers to another table was created after it.
            let tables = try String.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT name FROM sqlite_schema
                         WHERE type = 'table' AND name NOT LIKE 'grdb_%' AND name NOT LIKE 'sqlite_stat%' ORDER BY rowid DESC
                        """
                )
            )
            for table in tables { try db.cachedStatement(sql: "DELETE FROM \(table)").execute() }
        }
        idle.withLockedValue { $0.append(database) }
    }
}
