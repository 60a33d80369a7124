// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
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

    package init(_ file: DatabaseFile) throws {
        place = file.path
        (connection, departure) = try translatingErrors {
            var configuration = SQLiteStore.configuration
            // The transaction outlasts each call.
            configuration.allowsUnsafeTransactions = true
            let connection = try DatabaseQueue(path: file.path, configuration: configuration)
            let departure = try connection.writeWithoutTransaction { db -> Departure? in
                try db.execute(sql: "PRAGMA synchronous = FULL")
                let connection = SQLiteConnection(db)
                guard try connection.hasTable("departure") else { return nil }
                return try connection.fetchOne("SELECT \(sql: Departure.columns) FROM departure").map { Departure($0) }
            }
            return (connection, departure)
        }
    }

    package func close() throws {
        cursor?.close()
        cursor = nil
        try connection.close()
    }

    private func onDatabase<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try translatingErrors { try connection.writeWithoutTransaction(body) }
    }
}

extension SQLiteContents: TableContents {
    package func onConnection<Value>(_ body: (SQLiteConnection) throws -> Value) throws -> Value {
        try onDatabase { db in try body(SQLiteConnection(db)) }
    }

    package func begin() throws { try onDatabase { db in try db.beginTransaction(.immediate) } }

    package func beginAlone() throws { try begin() }

    package func write(_ rows: StoredRows, by insertion: RowStatement) throws { try onConnection { try $0.execute(insertion, rows) } }

    /// Also writes the log back, so that the file identifies itself without a log.
    package func commit() throws {
        try onDatabase { db in
            try db.commit()
            _ = try? Row.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        }
    }

    package func rollBack() throws {
        cursor?.close()
        cursor = nil
        triggers = []
        try onDatabase { db in if db.isInsideTransaction { try db.rollback() } }
    }

    package func hasTable(_ name: String) throws -> Bool { try onConnection { try $0.hasTable(name) } }

    package func greatestID(of table: StoredTable) throws -> Int64 {
        try onConnection { try $0.fetchOne("SELECT seq FROM sqlite_sequence WHERE name = \(table.name)")?.integer(at: 0) ?? 0 }
    }

    package func beginReading(_ table: StoredTable) throws {
        cursor?.close()
        cursor = try onDatabase { db in try RowCursor(of: table, in: db) }
    }

    package func read() throws -> StoredRows? { try onDatabase { [cursor] _ in try cursor?.read() } }

    package func refuseWrites(saying message: String) throws {
        for queue in Queue.allCases {
            try onDatabase { db in
                try db.execute(
                    sql: """
                        CREATE TRIGGER \(queue.rawValue)_departed BEFORE INSERT ON \(queue.rawValue)
                          BEGIN SELECT RAISE(ABORT, '\(message.replacing("'", with: "''"))'); END
                        """
                )
            }
        }
    }

    package func allowWrites() throws {
        for queue in Queue.allCases { try onDatabase { db in try db.execute(sql: "DROP TRIGGER \(queue.rawValue)_departed") } }
    }

    package func dropTriggers() throws {
        triggers = try onDatabase { db in
            let triggers = try Row.fetchAll(db, sql: "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
            for trigger in triggers { try db.execute(sql: "DROP TRIGGER \(trigger[0] as String)") }
            return triggers.map { $0[1] }
        }
    }

    package func complete(greatestIDs: [String: Int64]) throws {
        try onDatabase { [triggers] db in
            for (table, id) in greatestIDs {
                try db.execute(sql: "DELETE FROM sqlite_sequence WHERE name = ?", arguments: [table])
                if id > 0 { try db.execute(sql: "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", arguments: [table, id]) }
            }
            for trigger in triggers { try db.execute(sql: trigger) }
        }
    }
}

extension SQLiteConnection {
    fileprivate func hasTable(_ name: String) throws -> Bool {
        try exists("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = \(name)")
    }
}
