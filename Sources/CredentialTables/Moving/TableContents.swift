// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The contents of a store during a move, in one transaction that keeps other writers out.
///
/// A store whose contents have moved or arrived has a table more: `departure` says where they are, `arrival` from where they came.
package protocol TableContents: Actor {
    associatedtype Connection: TableConnection

    /// The place of the store, for people, without a password.
    nonisolated var place: String { get }
    /// Where the contents have moved or may have moved; nil if they are here.
    nonisolated var departure: Departure? { get }

    /// - Throws: `StoreError`.
    func onConnection<Value>(_ body: (Connection) throws -> Value) throws -> Value

    /// Waits for all other transactions to end, then begins one that keeps others from writing.
    /// - Throws: `MoveRefusal` if a siwatch works on the store, or `StoreError`.
    func begin() throws
    /// Begins a transaction once no other move has one.
    func beginAlone() throws
    func commit() throws
    func rollBack() throws

    /// Writes rows of a table. A later call may throw the error.
    func write(_ rows: StoredRows, by insertion: RowStatement) throws

    func hasTable(_ name: String) throws -> Bool
    /// Makes every later write of a backend fail with a message.
    func refuseWrites(saying message: String) throws
    func allowWrites() throws
    /// Drops the triggers that would refuse the arriving rows.
    func dropTriggers() throws

    /// The greatest id that a table ever gave; 0 if it gave none. For a table that remembers it.
    func greatestID(of table: StoredTable) throws -> Int64
    func beginReading(_ table: StoredTable) throws
    /// - Returns: the next portion; nil after the last.
    func read() throws -> StoredRows?
    /// Adds what this store needs besides the contents, such as the greatest ids that tables ever gave.
    func complete(greatestIDs: [String: Int64]) throws
}

extension TableContents {
    package func count(of table: StoredTable) throws -> Int {
        try onConnection { try $0.fetchInt("SELECT COUNT(*) FROM \(sql: table.name) WHERE \(sql: table.condition)") }
    }

    /// Records the departure, refuses every later write, and commits. From then on no siwatch starts on this store.
    package func depart(_ departure: Departure) throws {
        try onConnection { connection in
            let tables = Tables(connection.dialect)
            try connection.execute(
                """
                CREATE TABLE departure (
                  id          TEXT    NOT NULL PRIMARY KEY,
                  destination TEXT    NOT NULL,
                  at          \(sql: tables.integer) NOT NULL,
                  is_complete \(sql: tables.flag("is_complete"))
                )\(sql: tables.rows)
                """
            )
            try connection.execute(
                """
                INSERT INTO departure (\(sql: Departure.columns))
                 VALUES (\(departure.id), \(departure.destination), \(departure.at), \(departure.isComplete))
                """
            )
        }
        try refuseWrites(saying: departure.refusal)
        try commit()
    }

    package func confirmDeparture() throws {
        try beginAlone()
        try onConnection { try $0.execute("UPDATE departure SET is_complete = TRUE") }
        try commit()
    }

    /// Undoes `depart`, because nothing has arrived.
    package func withdrawDeparture() throws {
        try beginAlone()
        try allowWrites()
        try onConnection { try $0.execute("DROP TABLE departure") }
        try commit()
    }

    /// Whether the contents of that departure are here. Reads outside of the transaction. Waits for a process that may still commit them.
    package func hasArrived(_ id: String) throws -> Bool {
        try beginAlone()
        defer { try? rollBack() }
        guard try hasTable("arrival") else { return false }
        return try onConnection { try $0.exists("SELECT 1 FROM arrival WHERE id = \(id)") }
    }

    /// Makes room.
    /// - Throws: `MoveRefusal.notEmpty`, if a table other than of settings has rows.
    package func clear() throws {
        try onConnection { connection in
            let held = try StoredTable.all.filter { table in
                try table.kind != .setting && connection.exists("SELECT 1 FROM \(sql: table.name) WHERE \(sql: table.condition)")
            }
            guard held.isEmpty else { throw MoveRefusal.notEmpty(place: place, tables: held.map(\.name)) }
            for table in StoredTable.all.reversed() { try connection.execute("DELETE FROM \(sql: table.name)") }
        }
        try dropTriggers()
    }

    package func arrive(_ id: String, from place: String, at time: Timestamp) throws {
        try onConnection { connection in
            try connection.execute("\(sql: Tables(connection.dialect).arrival)")
            try connection.execute("INSERT INTO arrival (id, origin, at) VALUES (\(id), \(place), \(time))")
        }
        try commit()
    }
}

extension Tables {
    package var arrival: String {
        """
        CREATE TABLE IF NOT EXISTS arrival (
          id     TEXT    NOT NULL PRIMARY KEY,
          origin TEXT    NOT NULL,
          at     \(integer) NOT NULL
        )\(rows)
        """
    }
}
