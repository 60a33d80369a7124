// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialCore
import CredentialTables
import DaemonHarness
import NIOConcurrencyHelpers
import Synchronization
import Testing

@testable import PostgresStore

/// Runs the tests' SQL, which is SQLite's, on a schema of PostgreSQL.
///
/// It translates the intended differences: parameters are numbered, and payloads are bytes.
struct PostgresDoor: SQLDoor {
    private let connection: ConnectionThread

    init(_ address: PostgresAddress) { connection = ConnectionThread(address, label: "backend") }
    func run(_ sql: String, _ arguments: [SQLValue]) async throws { _ = try await rows(sql, arguments) }

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

    func allowWrites(to table: String) async throws { try await run("DROP TRIGGER refuse ON \(table)", []) }

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

/// Schemas on the process's one server. Each test has its own.
enum PostgresUnderTest {
    private static let schemas = Atomic(0)

    static func address(user: String = PostgresServer.user) throws -> PostgresAddress {
        PostgresAddress(
            try PostgresServer.shared.get().address(user: user),
            schema: "test_\(schemas.wrappingAdd(1, ordering: .relaxed).newValue)"
        )
    }

    static func address(_ address: PostgresAddress, as user: String) throws -> PostgresAddress {
        PostgresAddress(try PostgresServer.shared.get().address(user: user), schema: address.schema)
    }

    static func road(to address: PostgresAddress) throws -> (road: RoadToServer, address: PostgresAddress) {
        let road = try RoadToServer(PostgresServer.shared.get().folder)
        return (road, PostgresAddress(road.address, schema: address.schema))
    }
}

extension StoreUnderTest {
    /// Runs `body` while another session has changed a table, which commits once `body` waits for it.
    ///
    /// - Parameter statements: what the other session does last.
    func race<Value: Sendable>(
        _ change: String,
        in table: String,
        andThen statements: [String] = [],
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let other = ConnectionThread(postgres.address, label: "other")
        try await other.begin(change)
        let isDone = NIOLockedValueBox(false)
        let task = Task {
            defer { isDone.withLockedValue { $0 = true } }
            return try await body()
        }
        // In this schema only, because other tests wait for locks of their own.
        let waiting = """
            SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_locks WHERE relation = '\(table)'::regclass)
            """
        while try await column(waiting) == [0], !isDone.withLockedValue({ $0 }) { try Task.checkCancellation() }
        #expect(!isDone.withLockedValue { $0 })
        try await other.commit(after: statements)
        let result = await task.result
        await other.close()
        return try result.get()
    }
}

extension Connection {
    /// Runs a statement without values.
    func run(_ sql: String) throws { try change("\(sql: sql)") }
}

extension ConnectionThread {
    func begin(_ sql: String) throws {
        try run { connection in
            try connection.send("BEGIN")
            try connection.send("\(sql: sql)")
            // The transaction stays open for as long as the test needs.
            try connection.send("SET LOCAL idle_in_transaction_session_timeout = 0")
            try connection.flush()
        }
    }

    func commit(after statements: [String] = []) throws {
        try run { connection in
            for sql in statements + ["COMMIT"] { try connection.send("\(sql: sql)") }
            try connection.flush()
        }
    }
}
