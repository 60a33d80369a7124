// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import GRDB

/// A database that outlives the processes which work on it, one after another. Backends and the inspector come in by SQL.
package protocol SimulatedDatabase: Sendable {
    /// Whether a process that starts knows that it is alone, and takes up what the one before it had claimed. Else leases have to end.
    var voidsClaims: Bool { get }

    /// What a process that starts works with.
    func open() throws -> any CredentialStore

    /// Carries out one statement, in words that all databases know.
    func rows(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Row]

    /// Changes with whatever is written, and may change without.
    var version: Int { get throws }

    /// Keeps a copy of all that is there, in place of the last one.
    func backUp() throws

    /// Puts the copy in the place of all that is there.
    func restore() throws

    /// Leaves the database to another simulation.
    func release() throws
}

extension SimulatedDatabase {
    func rows(_ sql: String) throws -> [Row] { try rows(sql, []) }
}

/// Databases of one kind, of which each simulation takes an empty one.
package struct SimulatedDatabases: Sendable {
    /// As a person asks for them, after `make simulate`.
    package let option: String
    package let take: @Sendable () throws -> any SimulatedDatabase

    package init(option: String = "", take: @escaping @Sendable () throws -> any SimulatedDatabase) {
        self.option = option
        self.take = take
    }

    /// Of SQLite, in memory.
    package static let memory = SimulatedDatabases(take: MemoryDatabase.take)
}
