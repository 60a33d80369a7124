// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialTables

@testable import PostgresStore

/// Runs the tests' SQL, which is SQLite's, on a schema of PostgreSQL.
///
/// It translates the intended differences: parameters are numbered, and payloads are bytes.
struct PostgresDoor: SQLDoor {
    private let connection: ConnectionThread

    init(_ address: PostgresAddress) {
        connection = ConnectionThread(address, label: "backend")
    }

    func run(_ sql: String, _ arguments: [SQLValue]) async throws {
        _ = try await rows(sql, arguments)
    }

    func rows(_ sql: String, _ arguments: [SQLValue]) async throws -> [[SQLValue]] {
        let parameters = arguments.map(\.parameter)
        // The server prepares a statement for the types of its first values.
        let statement = Self.translated(sql) + " -- \(parameters.map(\.type))"
        return try await connection.run { connection in
            let rows = try connection.rows(of: connection.send(statement, parameters))
            return rows.map { row in (0..<Int(PQnfields(rows.result))).map { SQLValue(row, $0, of: rows.result) } }
        }
    }

    func refuseWrites(to column: String, of table: String) async throws {
        try await run("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'", [])
        try await run("CREATE TRIGGER refuse BEFORE UPDATE OF \(column) ON \(table) FOR EACH ROW EXECUTE FUNCTION refuse()", [])
    }

    func allowWrites(to table: String) async throws {
        try await run("DROP TRIGGER refuse ON \(table)", [])
    }

    static func translated(_ sql: String) -> String {
        var text = ""
        var count = 0
        var rest = Substring(sql)
        while let place = rest.firstIndex(of: "?") {
            text += rest[..<place]
            rest = rest[rest.index(after: place)...]
            let number = rest.prefix { $0.isNumber }
            rest = rest.dropFirst(number.count)
            if number.isEmpty { count += 1 }
            text += number.isEmpty ? "$\(count)" : "$\(number)"
        }
        text += rest
        return text.replacing(/CAST\((\$\d+) AS TEXT\)/) { "\($0.1)::bytea" }
            .replacing("CAST(payload AS BLOB)", with: "payload AS \"bytes\"")
    }
}

extension SQLValue {
    /// A text without a type. The server infers the type from its place.
    fileprivate var parameter: Parameter {
        switch self {
        case .null: Parameter(type: 0, bytes: nil)
        case .integer(let value): Parameter(value.columnValue)
        case .text(let value): Parameter(type: 0, bytes: Array(value.utf8))
        case .bytes(let value): Parameter(value.columnValue)
        }
    }

    fileprivate init(_ row: PostgresRow, _ column: Int, of result: OpaquePointer) {
        guard !row.isNull(at: column) else {
            self = .null
            return
        }
        switch PQftype(result, Int32(column)) {
        case Parameter(true.columnValue).type: self = .integer(row.bool(at: column) ? 1 : 0)
        // Of eight, two and four bytes.
        case 20, 21, 23: self = .integer(row.integer(at: column))
        case Parameter([UInt8]().columnValue).type where String(cString: PQfname(result, Int32(column))) == "bytes":
            self = .bytes(row.bytes(at: column))
        default: self = .text(row.text(at: column) ?? "")
        }
    }
}
