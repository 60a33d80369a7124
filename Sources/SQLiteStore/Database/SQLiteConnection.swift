// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
import GRDB

/// A connection to the file, for statements outside of hot loops. Hot loops use `PreparedStatement`.
package struct SQLiteConnection: TableConnection {
    let db: Database

    init(_ db: Database) {
        self.db = db
    }

    package var dialect: Dialect { .sqlite }

    package func fetchAll(_ sql: String, _ values: [ColumnValue]) throws -> [SQLiteRow] {
        try PreparedStatement(sql, in: db).rows(named: values)
    }

    package func change(_ sql: String, _ values: [ColumnValue]) throws -> Int {
        try execute(sql, values)
        return db.changesCount
    }

    package func execute(_ sql: String, _ values: [ColumnValue]) throws {
        _ = try PreparedStatement(sql, in: db).rows(named: values)
    }

    package func inSavepoint<Value>(_ body: () throws -> Value) throws -> Value {
        var value: Value?
        do {
            try db.inSavepoint {
                value = try body()
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw StoreError(error)
        }
        return value!
    }

    /// Does nothing: the file has one lock, which every transaction takes first.
    package func lockSettlements() {}

    package func users(_ ids: [AppUserID], in directory: ClientDirectory) throws -> [AppUserID: UserRecord] {
        try UserTable(db: db, directory: directory).load(ids)
    }

    package func save(_ users: [UserRecord], tallies: [String: UserRecord.Tally], in directory: ClientDirectory) throws {
        _ = try UserTable(db: db, directory: directory).save(users)
        try add(tallies, in: directory)
    }

    package func bringForward(_ slots: [RecheckSlot], of app: Int64) throws {
        var wasPending = 0
        for slot in slots {
            wasPending += try fetchInt(
                "SELECT pending_since IS NOT NULL FROM credential WHERE user_id = $1 AND client = $2",
                slot.userID,
                slot.client
            )
            try execute(
                """
                UPDATE credential SET due_at = $3, pending_since = NULL, pending_asked_at = NULL, pending_key = NULL
                 WHERE user_id = $1 AND client = $2
                """,
                slot.userID,
                slot.client,
                slot.dueAt
            )
        }
        if wasPending > 0 { try execute("UPDATE app SET pending = pending - $2 WHERE id = $1", app, wasPending) }
    }

    package func releaseNotifications() throws {
        try execute(
            "UPDATE notification_queue SET due_at = $1 WHERE \(Tables.setAside) AND due_at > 0 AND claimed_by IS NULL",
            NotificationRows.leftBehind
        )
    }

    /// Does nothing: the caller holds the lock on the file.
    package func beginRename(of app: String) {}
}

/// A row that outlives its statement.
package struct SQLiteRow: FetchedRow {
    enum Value {
        case null
        case integer(Int64)
        /// Also the bytes of a text.
        case bytes([UInt8])
    }

    let values: [Value]
    let names: [String]

    package func isNull(at column: Int) -> Bool {
        if case .null = values[column] { true } else { false }
    }

    package func integer(at column: Int) -> Int64 {
        if case .integer(let number) = values[column] { number } else { 0 }
    }

    package func bytes(at column: Int) -> [UInt8] {
        if case .bytes(let bytes) = values[column] { bytes } else { [] }
    }

    package func text(at column: Int) -> String? {
        if case .bytes(let bytes) = values[column] { String(decoding: bytes, as: UTF8.self) } else { nil }
    }

    package func index(of column: String) -> Int? { names.firstIndex(of: column) }
}
