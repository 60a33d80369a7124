// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The contents of a store with tables.
///
/// A store whose contents have moved or arrived has a table more: `departure` says where they are, `arrival` from where they came.
package protocol TableContents: DepartingStore, ArrivingStore {
    associatedtype Connection: TableConnection

    /// - Throws: `StoreError`.
    func onConnection<Value>(_ body: (Connection) throws -> Value) throws -> Value

    /// Begins a transaction once no other move has one.
    func beginAlone() throws

    func commit() throws

    func hasTable(_ name: String) throws -> Bool

    /// Makes every later write of a backend fail with a message.
    func refuseWrites(saying message: String) throws

    /// Undoes `refuseWrites`.
    func allowWrites() throws

    /// Drops the triggers that would refuse the arriving rows.
    func dropTriggers() throws
}

extension TableContents {
    package func count(of table: StoredTable) throws -> Int {
        try onConnection { try $0.fetchInt("SELECT COUNT(*) FROM \(table.name) WHERE \(table.condition)") }
    }

    package func depart(_ departure: Departure) throws {
        try onConnection { connection in
            let tables = Tables(connection.dialect)
            try connection.execute(
                """
                CREATE TABLE departure (
                  id          TEXT    NOT NULL PRIMARY KEY,
                  destination TEXT    NOT NULL,
                  at          \(tables.integer) NOT NULL,
                  is_complete \(tables.flag("is_complete"))
                )\(tables.rows)
                """
            )
            try connection.execute(
                "INSERT INTO departure (id, destination, at, is_complete) VALUES ($1, $2, $3, $4)",
                departure.id,
                departure.destination,
                departure.at,
                departure.isComplete
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

    package func withdrawDeparture() throws {
        try beginAlone()
        try allowWrites()
        try onConnection { try $0.execute("DROP TABLE departure") }
        try commit()
    }

    package func hasArrived(_ id: String) throws -> Bool {
        try beginAlone()
        defer { try? rollBack() }
        guard try hasTable("arrival") else { return false }
        return try onConnection { try $0.exists("SELECT 1 FROM arrival WHERE id = $1", id) }
    }

    package func clear() throws {
        try onConnection { connection in
            let held = try StoredTable.all.filter { table in
                try table.kind != .setting && connection.exists("SELECT 1 FROM \(table.name) WHERE \(table.condition)")
            }
            guard held.isEmpty else { throw MoveRefusal.notEmpty(place: place, tables: held.map(\.name)) }
            for table in StoredTable.all.reversed() { try connection.execute("DELETE FROM \(table.name)") }
        }
        try dropTriggers()
    }

    package func arrive(_ id: String, from place: String, at time: Timestamp) throws {
        try onConnection { connection in
            try connection.execute(Tables(connection.dialect).arrival)
            try connection.execute("INSERT INTO arrival (id, origin, at) VALUES ($1, $2, $3)", id, place, time)
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

extension Departure {
    /// - Parameter row: `id, destination, at, is_complete`.
    package init(_ row: some TableRow) {
        self.init(
            id: row.text(at: 0) ?? "",
            destination: row.text(at: 1) ?? "",
            at: Timestamp(milliseconds: row.integer(at: 2)),
            isComplete: row.bool(at: 3)
        )
    }
}
