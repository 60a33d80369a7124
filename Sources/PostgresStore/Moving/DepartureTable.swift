// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The row that says where the contents of a schema have moved. No other schema has this table.
enum DepartureTable {
    private static let name = "departure"
    /// The trigger that refuses to write, once for each statement.
    private static let trigger = "departed"

    static func read(of address: PostgresAddress, on connection: Connection) throws -> Departure? {
        guard try connection.hasTable(name, of: address) else { return nil }
        return try connection.rows("SELECT id, destination, at, is_complete FROM \(address.quotedSchema).\(name)").first.map { row in
            Departure(
                id: row.text(at: 0) ?? "",
                destination: row.text(at: 1) ?? "",
                at: Timestamp(milliseconds: row.integer(at: 2)),
                isComplete: row.bool(at: 3)
            )
        }
    }

    static func write(_ departure: Departure, on connection: Connection) throws {
        try connection.send(
            """
            CREATE TABLE \(name) (
              id          TEXT    PRIMARY KEY,
              destination TEXT    NOT NULL,
              at          BIGINT  NOT NULL,
              is_complete BOOLEAN NOT NULL
            )
            """
        )
        try connection.send(
            "INSERT INTO \(name) VALUES ($1, $2, $3, $4)",
            departure.id,
            departure.destination,
            departure.at,
            departure.isComplete
        )
        // A backend that still inserts here gets an error, and a siwatch that slept meanwhile changes nothing.
        try connection.send("CREATE FUNCTION \(trigger)() RETURNS trigger LANGUAGE plpgsql AS \(departure.refusal.functionBody)")
        for table in StoredTable.all {
            try connection.send(
                "CREATE TRIGGER \(trigger) BEFORE INSERT OR UPDATE OR DELETE ON \(table.name) FOR EACH STATEMENT EXECUTE FUNCTION \(trigger)()"
            )
        }
    }

    static func confirm(on connection: Connection) throws {
        try connection.send("UPDATE \(name) SET is_complete = TRUE")
    }

    static func drop(on connection: Connection) throws {
        for table in StoredTable.all { try connection.send("DROP TRIGGER \(trigger) ON \(table.name)") }
        try connection.send("DROP FUNCTION \(trigger)()")
        try connection.send("DROP TABLE \(name)")
    }
}

extension String {
    /// The body of a function that raises the text, as an SQL literal.
    fileprivate var functionBody: String {
        let raise = "BEGIN RAISE EXCEPTION USING MESSAGE = \(sqlLiteral); END"
        return raise.sqlLiteral
    }

    /// Valid whatever the server's setting for backslashes.
    private var sqlLiteral: String { "E'\(replacing("\\", with: "\\\\").replacing("'", with: "''"))'" }
}
