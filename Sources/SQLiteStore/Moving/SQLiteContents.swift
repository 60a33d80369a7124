// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
import GRDB

/// The contents of a file during a move. The owner of this object holds the lock on the database.
package actor SQLiteContents {
    package nonisolated let place: String
    package nonisolated let departure: Departure?
    let connection: DatabaseQueue
    private var cursor: RowCursor?
    /// The triggers that would refuse the arriving rows. siwatch drops them and creates them again at the end.
    private var triggers: [String] = []

    /// - Parameter file: a file with the schema that this program writes.
    package init(_ file: DatabaseFile) throws {
        place = file.path
        (connection, departure) = try translatingErrors {
            var configuration = SQLiteStore.configuration
            // The transaction outlasts each call.
            configuration.allowsUnsafeTransactions = true
            let connection = try DatabaseQueue(path: file.path, configuration: configuration)
            let departure = try connection.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = FULL")
                return try DepartureTable.read(in: db)
            }
            return (connection, departure)
        }
    }

    package func close() throws {
        cursor?.close()
        cursor = nil
        try connection.close()
    }

    func onConnection<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try translatingErrors { try connection.writeWithoutTransaction(body) }
    }

    /// Commits, and writes the log back, so that the file identifies itself without a log.
    private func commit() throws {
        try onConnection { db in
            try db.commit()
            _ = try? Row.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        }
    }
}

extension SQLiteContents: StoreContents {
    package func begin() throws {
        try onConnection { db in try db.beginTransaction(.immediate) }
    }

    package func rollBack() throws {
        cursor?.close()
        cursor = nil
        triggers = []
        try onConnection { db in if db.isInsideTransaction { try db.rollback() } }
    }

    package func count(of table: StoredTable) throws -> Int {
        try onConnection { db in try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM \(table.name) WHERE \(table.condition)") ?? 0 }
    }

    package func greatestID(of table: StoredTable) throws -> Int64 {
        try onConnection { db in
            try Int64.fetchOne(db, sql: "SELECT seq FROM sqlite_sequence WHERE name = ?", arguments: [table.name]) ?? 0
        }
    }

    package func beginReading(_ table: StoredTable) throws {
        cursor?.close()
        cursor = try onConnection { db in try RowCursor(table.selection, of: table, in: db) }
    }

    package func read() throws -> StoredRows? {
        try onConnection { [cursor] _ in try cursor?.read() }
    }
}

extension SQLiteContents: DepartingStore {
    package func depart(_ departure: Departure) throws {
        try onConnection { db in try DepartureTable.write(departure, in: db) }
        try commit()
    }

    package func confirmDeparture() throws {
        try begin()
        try onConnection { db in try DepartureTable.confirm(in: db) }
        try commit()
    }

    package func withdrawDeparture() throws {
        try begin()
        try onConnection { db in try DepartureTable.drop(in: db) }
        try commit()
    }
}

extension SQLiteContents: ArrivingStore {
    package func hasArrived(_ id: String) throws -> Bool {
        try onConnection { db in
            guard try db.tableExists("arrival") else { return false }
            return try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM arrival WHERE id = ?)", arguments: [id]) ?? false
        }
    }

    package func clear() throws {
        triggers = try onConnection { db in
            let held = try StoredTable.all.filter { table in
                guard table.kind != .setting else { return false }
                return try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM \(table.name) WHERE \(table.condition))") ?? false
            }
            guard held.isEmpty else { throw MoveRefusal.notEmpty(place: place, tables: held.map(\.name)) }
            for table in StoredTable.all.reversed() { try db.execute(sql: "DELETE FROM \(table.name)") }
            let triggers = try Row.fetchAll(db, sql: "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
            for trigger in triggers { try db.execute(sql: "DROP TRIGGER \(trigger[0] as String)") }
            return triggers.map { $0[1] }
        }
    }

    package func beginWriting(_ table: StoredTable) throws {
        cursor?.close()
        let places = table.columns.map { _ in "?" }.joined(separator: ", ")
        cursor = try onConnection { db in
            try RowCursor("INSERT INTO \(table.name) (\(table.columnList)) VALUES (\(places))", of: table, in: db)
        }
    }

    package func write(_ rows: StoredRows) throws {
        try onConnection { [cursor] _ in try cursor?.write(rows) }
    }

    package func endWriting() throws {
        cursor?.close()
        cursor = nil
    }

    package func complete(greatestIDs: [String: Int64]) throws {
        try onConnection { [triggers] db in
            for (table, id) in greatestIDs {
                try db.execute(sql: "DELETE FROM sqlite_sequence WHERE name = ?", arguments: [table])
                if id > 0 { try db.execute(sql: "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", arguments: [table, id]) }
            }
            for trigger in triggers { try db.execute(sql: trigger) }
        }
    }

    package func arrive(_ id: String, from place: String, at time: Timestamp) throws {
        try onConnection { db in
            try db.execute(sql: ArrivalTable.sql)
            try db.execute(sql: "INSERT INTO arrival (id, origin, at) VALUES (?, ?, ?)", arguments: [id, place, time.milliseconds])
        }
        try commit()
    }
}

/// The row that says from where the contents of a file have come. Only such a file has this table.
enum ArrivalTable {
    static let sql = """
        CREATE TABLE IF NOT EXISTS arrival (
          id     TEXT    NOT NULL PRIMARY KEY,
          origin TEXT    NOT NULL,
          at     INTEGER NOT NULL
        ) STRICT
        """
}
