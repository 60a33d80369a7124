// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import Foundation
import GRDB
import NIOConcurrencyHelpers

/// A connection to PostgreSQL, in a backend's hands. It shares nothing with siwatch's own.
///
/// While the server is away or has no room, what is to be told and what is asked is said again.
final class BackendServer: BackendDatabase {
    private let connection: NIOLockedValueBox<Handle>
    /// Held for as long as a transaction takes, so that nothing else of this process gets into it.
    private let turn = NIOLockedValueBox(())
    private let schema: String
    /// The backend's own table, in which it finds what it has told; nil where it may not make one.
    private let notes: String?

    /// Used by one thread at a time, under the lock.
    private struct Handle: @unchecked Sendable {
        var connection: OpaquePointer?
    }

    /// - Parameters:
    ///   - server: as libpq reads it.
    ///   - keepsNotes: whether it may make a table of its own.
    init(_ server: String, schema: String, keepsNotes: Bool) throws {
        let connection = PQconnectdb(server)
        guard let connection, PQstatus(connection) == CONNECTION_OK else {
            throw HarnessError("no connection: \(String(cString: PQerrorMessage(connection)))")
        }
        self.connection = NIOLockedValueBox(Handle(connection: connection))
        self.schema = schema
        // What the server tells of its own accord is not to come to the standard error.
        PQsetNoticeProcessor(connection, { _, _ in }, nil)
        notes = keepsNotes ? "public.notes_\(schema)" : nil
        Self.enter(schema, connection)
        // Somebody else of the same backend may do so, too.
        if let notes { PQclear(PQexec(connection, "CREATE TABLE IF NOT EXISTS \(notes) (told TEXT PRIMARY KEY)")) }
    }

    private static func enter(_ schema: String, _ connection: OpaquePointer?) {
        PQclear(PQexec(connection, "SET search_path TO \(schema)"))
    }

    deinit {
        try? close()
    }

    func transaction(_ sql: String, _ rows: [[DatabaseValue]]) async throws {
        try await transaction(rows.map { (sql, $0) })
    }

    func transaction(_ statements: [(sql: String, arguments: [DatabaseValue])]) async throws {
        let note = [UUID().uuidString.databaseValue]
        var isUncertain = false
        try await insist {
            // Where the answer to a COMMIT was lost, its note says whether it happened.
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

    /// - Parameter body: what may be done again.
    private func insist<Result>(_ body: () throws -> Result) async throws -> Result {
        let end = ContinuousClock.now + Self.patience
        while true {
            do {
                return try turn.withLockedValue { _ in try body() }
            } catch let trouble as ServerTrouble {
                guard .now < end else { throw HarnessError(trouble.words) }
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }

    func execute(_ sql: String, _ arguments: [DatabaseValue]) async throws {
        _ = try turn.withLockedValue { _ in try run(sql, arguments) }
    }

    func rows(_ sql: String, _ arguments: [DatabaseValue]) async throws -> [Row] {
        try await insist { try run(sql, arguments) }
    }

    func payload(_ body: String) -> DatabaseValue { Data(body.utf8).databaseValue }

    func version() async throws -> Int? { nil }

    func close() throws {
        connection.withLockedValue { handle in
            PQfinish(handle.connection)
            handle.connection = nil
        }
    }

    private func run(_ sql: String, _ arguments: [DatabaseValue]) throws -> [Row] {
        let values = arguments.map(Self.text)
        return try connection.withLockedValue { handle in
            let connection = handle.connection
            let texts: [UnsafeMutablePointer<CChar>?] = values.map { $0.flatMap { strdup($0) } }
            defer { for text in texts { free(text) } }
            let pointers = texts.map { UnsafePointer<CChar>($0) }
            // Several statements go without arguments only.
            func execute() -> OpaquePointer? {
                pointers.isEmpty
                    ? PQexec(connection, sql)
                    : PQexecParams(connection, Self.numbered(sql), Int32(pointers.count), nil, pointers, nil, nil, 0)
            }
            let isAlone = PQtransactionStatus(connection) != PQTRANS_INTRANS
            var result = execute()
            defer { PQclear(result) }
            // The server was away: what a transaction had begun is gone, and all else is said again.
            if Self.isLost(result), isAlone {
                PQreset(connection)
                Self.enter(schema, connection)
                PQclear(result)
                result = execute()
            }
            guard [PGRES_COMMAND_OK, PGRES_TUPLES_OK].contains(PQresultStatus(result)) else {
                let words = "\(sql): \(String(cString: PQresultErrorMessage(result)))"
                if Self.isTrouble(result) { throw ServerTrouble(words: words) }
                throw HarnessError(words)
            }
            return try (0..<PQntuples(result)).map { try Self.row($0, of: result) }
        }
    }

    /// Whether no server has answered: it would have given a code. The status of the connection says so one statement later.
    private static func isLost(_ result: OpaquePointer?) -> Bool {
        PQresultStatus(result) == PGRES_FATAL_ERROR && PQresultErrorField(result, Int32(UInt8(ascii: "C"))) == nil
    }

    /// Whether the same may go well later: without a connection, without room, while the server shuts down or recovers.
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

    /// A row as SQLite would give it.
    private static func row(_ row: Int32, of result: OpaquePointer?) throws -> Row {
        let columns = 0..<PQnfields(result)
        let values = columns.map { column -> DatabaseValue in
            guard PQgetisnull(result, row, column) == 0 else { return .null }
            let text = String(cString: PQgetvalue(result, row, column))
            switch PQftype(result, column) {
            // Of two, four and eight bytes, and what a sum of those is.
            case 21, 23, 20, 1700: return Int64(text)?.databaseValue ?? text.databaseValue
            case 16: return (text == "t").databaseValue
            default: return text.databaseValue
            }
        }
        let names = columns.map { "? AS \"\(String(cString: PQfname(result, $0)))\"" }
        return try scratch.read { db in
            try Row.fetchOne(db.cachedStatement(sql: "SELECT \(names.joined(separator: ", "))"), arguments: StatementArguments(values))!
        }
    }

    /// What makes rows of values.
    private static let scratch = try! DatabaseQueue()

    private static func numbered(_ sql: String) -> String {
        var number = 0
        return sql.split(separator: "?", omittingEmptySubsequences: false).reduce(into: "") { text, part in
            if number > 0 { text += "$\(number)" }
            text += part
            number += 1
        }
    }
}

private struct ServerTrouble: Error, CustomStringConvertible {
    let words: String

    var description: String { words }
}
