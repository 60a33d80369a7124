// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
package import CredentialTables

package actor PostgresContents {
    package nonisolated let place: String
    package nonisolated let departure: Departure?
    package nonisolated let isThere: Bool
    private let address: PostgresAddress
    /// The connection of the transaction. After a failure siwatch begins another transaction on a new connection, because the fate of the
    /// last is unknown.
    private(set) var connection: Connection
    private var reading: StoredTable?
    private nonisolated let executor = QueueExecutor(label: "siwatch move")

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// - Throws: `StoreError`.
    package init(_ address: PostgresAddress) throws {
        self.address = address
        do {
            let connection = try Connection(address)
            self.connection = connection
            place = address.description
            isThere = try connection.hasTable("schema_version", of: address)
            departure = try connection.departure(of: address)
        } catch let error as PostgresError {
            throw StoreError(error)
        }
    }

    /// Begins a transaction under the lock of migrations. Once siwatch holds the lock, a move that lost its connection has ended.
    package func beginAlone() throws {
        reading = nil
        try onConnection { connection in
            if connection.isBroken || connection.isInTransaction { self.connection = try Connection(address) }
        }
        try onConnection { connection in
            try connection.send("BEGIN ISOLATION LEVEL READ COMMITTED")
            try connection.lockMigrations(of: address)
            try connection.flush()
        }
    }

    /// - Throws: `StoreError`, which says whether the fate of a COMMIT is unknown.
    package func onConnection<Value>(_ body: (Connection) throws -> Value) throws -> Value {
        do {
            return try body(connection)
        } catch let error as PostgresError {
            throw StoreError(error, mayBeCommitted: connection.mayBeCommitted)
        }
    }

    package func commit() throws {
        try onConnection { connection in
            try connection.sendCommit()
            try connection.flush()
        }
    }
}

extension PostgresContents: TableContents {
    package func begin() throws {
        try beginAlone()
        try onConnection { connection in
            // A copy needs no time limit, because it waits for the other side meanwhile.
            connection.longestSilence = nil
            try connection.send("SET LOCAL statement_timeout = 0")
            try connection.send("SET LOCAL idle_in_transaction_session_timeout = 0")
            // Reports a siwatch that is at work instead of waiting for it.
            if try connection.replicaIsAtWork() { throw MoveRefusal.inUse(place: place) }
            // From here on nobody changes the rows, so each statement sees the same.
            try connection.send("LOCK TABLE \(sql: StoredTable.all.map(\.name).joined(separator: ", ")) IN EXCLUSIVE MODE")
            try connection.flush()
        }
    }

    package func rollBack() throws {
        // The old connection takes its unfinished work with it.
        reading = nil
        try onConnection { _ in connection = try Connection(address) }
    }

    package func greatestID(of table: StoredTable) throws -> Int64 {
        let sequence: SQL = "pg_get_serial_sequence(\(table.name), 'id')::regclass"
        return try onConnection { try $0.fetchOne("SELECT COALESCE(pg_sequence_last_value(\(sequence)), 0)")?.integer(at: 0) ?? 0 }
    }

    package func beginReading(_ table: StoredTable) throws {
        try onConnection { connection in
            if let reading { try connection.send("CLOSE \(sql: reading.cursor)") }
            try connection.send("DECLARE \(sql: table.cursor) NO SCROLL CURSOR FOR \(sql: table.selection)")
            try connection.flush()
        }
        reading = table
    }

    package func read() throws -> StoredRows? {
        guard let reading else { return nil }
        let rows = try onConnection { try $0.fetchAll("FETCH \(sql: Self.portion) FROM \(sql: reading.cursor)").map(reading.values) }
        return rows.isEmpty ? nil : rows
    }

    /// Rows, of which the longest have a notification.
    private static let portion = 500

    package func write(_ rows: StoredRows, by insertion: RowStatement) throws {
        try onConnection { connection in
            try connection.execute(insertion, rows)
            try connection.flush()
        }
    }

    package func hasTable(_ name: String) throws -> Bool { try onConnection { try $0.hasTable(name, of: address) } }

    /// Refuses each statement that writes, so that a siwatch that slept meanwhile changes nothing either.
    package func refuseWrites(saying message: String) throws {
        let raise = "BEGIN RAISE EXCEPTION USING MESSAGE = \(message.sqlLiteral); END"
        try onConnection { connection in
            try connection.send("CREATE FUNCTION departed() RETURNS trigger LANGUAGE plpgsql AS \(sql: raise.sqlLiteral)")
            for table in StoredTable.all {
                try connection.send(
                    """
                    CREATE TRIGGER departed BEFORE INSERT OR UPDATE OR DELETE ON \(sql: table.name)
                     FOR EACH STATEMENT EXECUTE FUNCTION departed()
                    """
                )
            }
        }
    }

    package func allowWrites() throws {
        try onConnection { connection in
            for table in StoredTable.all { try connection.send("DROP TRIGGER departed ON \(sql: table.name)") }
            try connection.send("DROP FUNCTION departed()")
        }
    }

    /// Does nothing: no trigger refuses arriving rows.
    package func dropTriggers() {}

    package func complete(greatestIDs: [String: Int64]) throws {
        try onConnection { connection in
            // Each app has its breaker row from the beginning, so that a transaction can lock it.
            try connection.send("INSERT INTO breaker (app) SELECT id FROM app ON CONFLICT DO NOTHING")
            for table in StoredTable.all where table.key == "id" {
                // A failed move does not set a sequence back. That does no harm, because ids may have gaps.
                try connection.send(
                    """
                    SELECT setval(pg_get_serial_sequence(\(table.name), 'id'), GREATEST(n.id, 1), n.id > 0)
                      FROM (SELECT GREATEST((SELECT MAX(id) FROM \(sql: table.name)), \(greatestIDs[table.name] ?? 0)) AS id) n
                    """
                )
            }
            // The planner's statistics are from when the tables were empty.
            for table in StoredTable.all { try connection.send("ANALYZE \(sql: table.name)") }
            try connection.flush()
        }
    }
}

extension StoredTable {
    fileprivate var cursor: String { "\"\(name)\"" }

    fileprivate func values(_ row: PostgresRow) -> [ColumnValue] {
        columns.enumerated().map { index, column in
            let isNull = row.isNull(at: index)
            return switch column.form {
            case .integer(1): .boolean(isNull ? nil : row.bool(at: index))
            case .integer: .integer(isNull ? nil : row.integer(at: index))
            case .text: .text(row.text(at: index))
            case .bytes, .payload: .bytes(isNull ? nil : row.bytes(at: index))
            }
        }
    }
}

extension Connection {
    func departure(of address: PostgresAddress) throws -> Departure? {
        guard try hasTable("departure", of: address) else { return nil }
        return try fetchOne("SELECT \(sql: Departure.columns) FROM \(sql: address.quotedSchema).departure").map { Departure($0) }
    }
}

extension String {
    /// Valid whatever the server's setting for backslashes.
    fileprivate var sqlLiteral: String { "E'\(replacing("\\", with: "\\\\").replacing("'", with: "''"))'" }
}
