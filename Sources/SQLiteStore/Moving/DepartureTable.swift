// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB

/// The row that says where the contents of a file have moved. No other file has this table.
enum DepartureTable {
    static let name = "departure"

    static func read(in db: Database) throws -> Departure? {
        guard try db.tableExists(name) else { return nil }
        return try Row.fetchOne(db, sql: "SELECT id, destination, at, is_complete FROM \(name)").map {
            Departure(id: $0[0], destination: $0[1], at: Timestamp(milliseconds: $0[2]), isComplete: $0[3])
        }
    }

    static func write(_ departure: Departure, in db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE \(name) (
                  id          TEXT    NOT NULL PRIMARY KEY,
                  destination TEXT    NOT NULL,
                  at          INTEGER NOT NULL,
                  is_complete INTEGER NOT NULL CHECK (is_complete IN (0, 1))
                ) STRICT
                """
        )
        try db.execute(
            sql: "INSERT INTO \(name) VALUES (?, ?, ?, ?)",
            arguments: [departure.id, departure.destination, departure.at.milliseconds, departure.isComplete]
        )
        // A backend that still inserts here gets an error.
        for queue in Queue.allCases {
            try db.execute(
                sql: """
                    CREATE TRIGGER \(queue.rawValue)_departed BEFORE INSERT ON \(queue.rawValue)
                      BEGIN SELECT RAISE(ABORT, \(departure.refusal.sqlLiteral)); END
                    """
            )
        }
    }

    static func confirm(in db: Database) throws {
        try db.execute(sql: "UPDATE \(name) SET is_complete = 1")
    }

    static func drop(in db: Database) throws {
        for queue in Queue.allCases { try db.execute(sql: "DROP TRIGGER \(queue.rawValue)_departed") }
        try db.execute(sql: "DROP TABLE \(name)")
    }
}

extension String {
    fileprivate var sqlLiteral: String { "'\(replacing("'", with: "''"))'" }
}
