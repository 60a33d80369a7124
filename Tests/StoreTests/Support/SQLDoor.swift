// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The way in for everybody but the daemon: plain SQL, over a connection of one's own where the store has such a thing.
protocol SQLDoor: Sendable {
    /// Runs one statement and commits.
    func run(_ sql: String, _ arguments: [SQLValue]) async throws
    func rows(_ sql: String, _ arguments: [SQLValue]) async throws -> [[SQLValue]]
    /// Refuses, until they are allowed again, writes to a column.
    func refuseWrites(to column: String, of table: String) async throws
    func allowWrites(to table: String) async throws
}
