// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Plain SQL for all but the daemon, over a connection of its own if the store has one.
protocol SQLDoor: Sendable {
    /// Runs one statement and commits.
    func run(_ sql: String, _ arguments: [SQLValue]) async throws
    func rows(_ sql: String, _ arguments: [SQLValue]) async throws -> [[SQLValue]]
    /// Refuses writes to a column until they are allowed again.
    func refuseWrites(to column: String, of table: String) async throws
    func allowWrites(to table: String) async throws
}
