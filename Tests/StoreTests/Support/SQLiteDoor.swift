// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import GRDB

struct SQLiteDoor: SQLDoor {
    let connection: any DatabaseWriter

    init(_ connection: any DatabaseWriter) { self.connection = connection }

    /// A connection with the settings that the contract asks of backends on the same host.
    init(asBackendOf path: String) throws {
        var configuration = GRDB.Configuration()
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA busy_timeout = 5000; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON")
        }
        connection = try DatabaseQueue(path: path, configuration: configuration)
    }

    func run(_ sql: String, _ arguments: [SQLValue]) async throws {
        try await connection.write { db in try db.execute(sql: sql, arguments: StatementArguments(arguments)) }
    }

    func rows(_ sql: String, _ arguments: [SQLValue]) async throws -> [[SQLValue]] {
        try await connection.read { db in
            try Row.fetchAll(db, sql: sql, arguments: StatementArguments(arguments)).map { row in
                row.databaseValues.map(SQLValue.init)
            }
        }
    }
}

extension SQLiteDoor {
    func refuseWrites(to column: String, of table: String) async throws {
        try await run("CREATE TRIGGER refuse BEFORE UPDATE OF \(column) ON \(table) BEGIN SELECT RAISE(ABORT, 'no'); END", [])
    }

    func allowWrites(to table: String) async throws { try await run("DROP TRIGGER refuse", []) }
}

extension SQLValue: DatabaseValueConvertible {
    init(_ value: DatabaseValue) {
        switch value.storage {
        case .null: self = .null
        case .int64(let value): self = .integer(value)
        case .double(let value): self = .text("\(value)")
        case .string(let value): self = .text(value)
        case .blob(let value): self = .bytes([UInt8](value))
        }
    }

    var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let value): value.databaseValue
        case .text(let value): value.databaseValue
        case .bytes(let value): Data(value).databaseValue
        }
    }

    static func fromDatabaseValue(_ value: DatabaseValue) -> SQLValue? { SQLValue(value) }
}
