// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import Foundation
package import GRDB
import NIOConcurrencyHelpers

/// A backend's connection to PostgreSQL. It shares nothing with siwatch's own.
///
/// While the server is away or has no room, it repeats transactions and queries.
package final class BackendServer: BackendDatabase {
    private let connection: NIOLockedValueBox<Handle>
    /// Held during a transaction, so that no other statement of this process gets into it.
    private let turn = NIOLock()
    private let schema: String
    /// The backend's own table of transactions that it committed; nil if it may not make a table.
    private let notes: String?

    /// Used by one thread at a time, under the lock.
    fileprivate struct Handle: @unchecked Sendable {
        var connection: OpaquePointer?
        var prepared: [String: String] = [:]
    }

    /// - Parameter server: a connection string of libpq.
    package init(_ server: String, schema: String, keepsNotes: Bool = false) throws {
        let connection = PQconnectdb(server)
        guard let connection, PQstatus(connection) == CONNECTION_OK else {
            throw HarnessError("no connection: \(String(cString: PQerrorMessage(connection)))")
        }
        self.connection = NIOLockedValueBox(Handle(connection: connection))
        self.schema = schema
        // Keep the server's notices out of standard error.
        PQsetNoticeProcessor(connection, { _, _ in }, nil)
        notes = keepsNotes ? "public.notes_\(schema)" : nil
        Self.enter(schema, connection)
        // Another connection of the same backend may create it at the same time.
        if let notes { PQclear(PQexec(connection, "CREATE TABLE IF NOT EXISTS \(notes) (told TEXT PRIMARY KEY)")) }
    }

    private static func enter(_ schema: String, _ connection: OpaquePointer?) {
        PQclear(PQexec(connection, "SET search_path TO \(schema)"))
    }

    deinit { try? close() }

    func transaction(_ statements: [(sql: String, arguments: [DatabaseValue])]) async throws {
        let note = [UUID().uuidString.databaseValue]
        var isUncertain = false
        try await insist {
            // After a lost answer to COMMIT, the note tells whether the commit happened.
            if isUncertain, let notes, try !run("SELECT 1 FROM \(notes) WHERE told = ?", note).isEmpty { return }
            _ = try run("BEGIN", [])
            do {
                if let notes { _ = try run("INSERT INTO \(notes) (told) VALUES (?)", note) }
                for (sql, arguments) in statements { _ = try run(sql, arguments) }
                isUncertain = true
                _ = try run("COMMIT", [])
            } catch {
                _ = try? run("ROLLBACK", [])
                throw error
            }
        }
    }

    private static let patience = Duration.seconds(60)

    /// - Parameter body: runs again after trouble with the server.
    private func insist<Result>(_ body: () throws -> Result) async throws -> Result {
        let end = ContinuousClock.now + Self.patience
        while true {
            do {
                return try turn.withLock { try body() }
            } catch let trouble as ServerTrouble {
                guard .now < end else { throw HarnessError(trouble.words) }
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }

    func execute(_ sql: String, _ arguments: [DatabaseValue]) async throws { _ = try turn.withLock { try run(sql, arguments) } }

    func rows(_ sql: String, _ arguments: [DatabaseValue]) async throws -> [Row] {
        try await insist { try run(sql, arguments, isOne: true) }
    }

    func payload(_ body: String) -> DatabaseValue { Data(body.utf8).databaseValue }
    func version() async throws -> Int? { nil }

    package func close() throws {
        connection.withLockedValue { handle in
            PQfinish(handle.connection)
            handle.connection = nil
        }
    }

    /// Runs once, inside the current transaction, if there is one.
    ///
    /// - Parameter isOne: whether it is one statement. Several statements take no arguments.
    @discardableResult
    package func run(_ sql: String, _ arguments: [DatabaseValue] = [], isOne: Bool = false) throws -> [Row] {
        let values = arguments.map(Self.text)
        return try connection.withLockedValue { handle in
            let connection = handle.connection
            func execute() -> OpaquePointer? { isOne || !values.isEmpty ? handle.execute(sql, values) : PQexec(connection, sql) }
            let isAlone = PQtransactionStatus(connection) != PQTRANS_INTRANS
            var result = execute()
            defer { PQclear(result) }
            // The server was away. An open transaction is lost. Any other statement runs again.
            if Self.isLost(result), isAlone {
                PQreset(connection)
                handle.prepared = [:]
                Self.enter(schema, connection)
                PQclear(result)
                result = execute()
            }
            guard [PGRES_COMMAND_OK, PGRES_TUPLES_OK].contains(PQresultStatus(result)) else {
                let words = "\(sql): \(String(cString: PQresultErrorMessage(result)))"
                if Self.isTrouble(result) { throw ServerTrouble(words: words) }
                throw HarnessError(words)
            }
            return try Self.rows(of: result)
        }
    }

    /// Whether no server answered, because an answer has a code. The status of the connection changes one statement later.
    private static func isLost(_ result: OpaquePointer?) -> Bool {
        PQresultStatus(result) == PGRES_FATAL_ERROR && PQresultErrorField(result, Int32(UInt8(ascii: "C"))) == nil
    }

    /// Whether a retry may succeed: there was no connection or no room, or the server shuts down or recovers.
    private static func isTrouble(_ result: OpaquePointer?) -> Bool {
        guard let code = PQresultErrorField(result, Int32(UInt8(ascii: "C"))) else { return true }
        return ["08", "53", "57"].contains(String(cString: code).prefix(2))
    }

    /// Nil for NULL.
    private static func text(_ value: DatabaseValue) -> String? {
        switch value.storage {
        case .null: nil
        case .int64(let number): "\(number)"
        case .double(let number): "\(number)"
        case .string(let text): text
        case .blob(let bytes): "\\x" + bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        }
    }

    /// The rows as SQLite would return them.
    private static func rows(of result: OpaquePointer?) throws -> [Row] {
        guard PQntuples(result) > 0 else { return [] }
        let columns = 0..<PQnfields(result)
        let names = columns.map { "? AS \"\(String(cString: PQfname(result, $0)))\"" }
        return try scratch.inDatabase { db in
            let statement = try db.cachedStatement(sql: "SELECT \(names.joined(separator: ", "))")
            return try (0..<PQntuples(result)).map { row in
                let values = columns.map { value(row, $0, of: result) }
                return try Row.fetchOne(statement, arguments: StatementArguments(values))!
            }
        }
    }

    private static func value(_ row: Int32, _ column: Int32, of result: OpaquePointer?) -> DatabaseValue {
        guard PQgetisnull(result, row, column) == 0 else { return .null }
        let text = String(cString: PQgetvalue(result, row, column))
        switch PQftype(result, column) {
        // Integers of two, four and eight bytes, and the type of their sum.
        case 21, 23, 20, 1700: return Int64(text)?.databaseValue ?? text.databaseValue
        case 16: return (text == "t").databaseValue
        case 17: return bytes(text).databaseValue
        default: return text.databaseValue
        }
    }

    /// - Parameter text: `\x`, then two digits for each byte.
    private static func bytes(_ text: String) -> Data {
        var digits = Array(text.utf8.dropFirst(2))[...]
        var bytes = Data()
        while let byte = UInt8(String(decoding: digits.prefix(2), as: UTF8.self), radix: 16) {
            bytes.append(byte)
            digits = digits.dropFirst(2)
        }
        return bytes
    }

    private static let scratch = try! DatabaseQueue()
}

extension BackendServer.Handle {
    /// Runs a statement, and prepares it on its first use.
    ///
    /// - Parameter values: nil for NULL.
    fileprivate mutating func execute(_ sql: String, _ values: [String?]) -> OpaquePointer? {
        let texts: [UnsafeMutablePointer<CChar>?] = values.map { $0.flatMap { strdup($0) } }
        defer { for text in texts { free(text) } }
        let name = prepared[sql] ?? "s\(prepared.count)"
        if prepared[sql] == nil {
            let result = PQprepare(connection, name, Self.numbered(sql), 0, nil)
            guard PQresultStatus(result) == PGRES_COMMAND_OK else { return result }
            PQclear(result)
            prepared[sql] = name
        }
        return PQexecPrepared(connection, name, Int32(texts.count), texts.map { UnsafePointer($0) }, nil, nil, 0)
    }

    /// Parameters in PostgreSQL's syntax. Numbered parameters of SQLite keep their numbers.
    private static func numbered(_ sql: String) -> String {
        let parts = sql.split(separator: "?", omittingEmptySubsequences: false)
        return parts.dropFirst().enumerated().reduce(into: String(parts[0])) { text, part in
            text += part.element.first?.isNumber ?? false ? "$" : "$\(part.offset + 1)"
            text += part.element
        }
    }
}

private struct ServerTrouble: Error, CustomStringConvertible {
    let words: String

    var description: String { words }
}
