// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import GRDB

/// A database that outlives the processes working on it, one after another. Backends and the inspector use SQL.
package protocol SimulatedDatabase: Sendable {
    /// Whether a new process knows that it is alone, and takes over the claims of the previous one. Otherwise leases must end.
    var voidsClaims: Bool { get }

    /// The store for a new process.
    func open() throws -> any CredentialStore

    /// Runs one statement in SQL that all databases understand.
    func rows(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Row]

    /// Changes with every write, and may change without one.
    var version: Int { get throws }

    /// Copies the whole database, in place of the last copy.
    func backUp() throws

    /// Replaces the whole database by the copy.
    func restore() throws

    /// Gives the database back for another simulation.
    func release() throws
}

extension SimulatedDatabase {
    func rows(_ sql: String) throws -> [Row] { try rows(sql, []) }
}

/// Databases of one kind. Each simulation takes an empty one.
package struct SimulatedDatabases: Sendable {
    /// The option of `make simulate` that selects them.
    package let option: String
    package let take: @Sendable () throws -> any SimulatedDatabase

    package init(option: String = "", take: @escaping @Sendable () throws -> any SimulatedDatabase) {
        self.option = option
        self.take = take
    }

    /// SQLite databases in memory.
    package static let memory = SimulatedDatabases(take: MemoryDatabase.take)
}
