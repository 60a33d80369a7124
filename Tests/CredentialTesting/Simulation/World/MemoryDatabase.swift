// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import GRDB
import NIOConcurrencyHelpers
import SQLiteStore

/// An SQLite database in memory, for one simulation after another: compiling a statement costs more than running it a hundred times.
final class MemoryDatabase: SimulatedDatabase {
    private static let idle = NIOLockedValueBox<[DatabaseQueue]>([])

    private let queue: DatabaseQueue
    private let copy = NIOLockedValueBox<DatabaseQueue?>(nil)

    private init(_ queue: DatabaseQueue) { self.queue = queue }
    static func take() throws -> any SimulatedDatabase { MemoryDatabase(try takeQueue()) }
    private static func takeQueue() throws -> DatabaseQueue { try idle.withLockedValue { $0.popLast() } ?? SQLiteStore.memory() }

    let voidsClaims = true

    func open() throws -> any CredentialStore {
        let store = try SQLiteStore.inMemory(queue)
        try store.recover()
        return store
    }

    func rows(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Row] {
        try queue.inDatabase { db in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: StatementArguments(arguments)) }
    }

    var version: Int { queue.inDatabase { $0.totalChangesCount } }

    func backUp() throws {
        let copy = try self.copy.withLockedValue { $0 } ?? Self.takeQueue()
        try queue.backup(to: copy)
        self.copy.withLockedValue { $0 = copy }
    }

    func restore() throws {
        guard let copy = copy.withLockedValue({ $0 }) else { preconditionFailure("There is no copy.") }
        try copy.backup(to: queue)
    }

    func release() throws {
        let copy = copy.withLockedValue { $0 }
        for queue in [queue] + (copy.map { [$0] } ?? []) {
            try Self.empty(queue)
            Self.idle.withLockedValue { $0.append(queue) }
        }
    }

    private static func empty(_ queue: DatabaseQueue) throws {
        try queue.write { db in
            // A table was created after the tables that it refers to.
            let sql = """
                SELECT name FROM sqlite_schema
                 WHERE type = 'table' AND name NOT LIKE 'grdb_%' AND name NOT LIKE 'sqlite_stat%' ORDER BY rowid DESC
                """
            let tables = try String.fetchAll(db.cachedStatement(sql: sql))
            for table in tables { try db.cachedStatement(sql: "DELETE FROM \(table)").execute() }
        }
    }
}

/// A database that outlives the processes working on it, one after another. Backends and the inspector use SQL.
package protocol SimulatedDatabase: Sendable {
    /// Whether a new process knows that it is alone, and takes over the claims of the previous one. Otherwise leases must end.
    var voidsClaims: Bool { get }

    func open() throws -> any CredentialStore

    /// Runs one statement in SQL that all databases understand.
    func rows(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Row]

    /// Changes with every write, and may change without one.
    var version: Int { get throws }

    func backUp() throws

    func restore() throws

    func release() throws
}

extension SimulatedDatabase {
    func rows(_ sql: String) throws -> [Row] { try rows(sql, []) }
}

/// Databases of one kind. Each simulation takes an empty one.
package struct SimulatedDatabases: Sendable {
    package let option: String
    package let take: @Sendable () throws -> any SimulatedDatabase

    package init(option: String = "", take: @escaping @Sendable () throws -> any SimulatedDatabase) {
        (self.option, self.take) = (option, take)
    }

    /// SQLite databases in memory.
    package static let memory = SimulatedDatabases(take: MemoryDatabase.take)
}
