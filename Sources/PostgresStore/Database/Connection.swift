// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialTables
import Foundation

/// One connection to a server. It sends statements without waiting, and prepares each on its first use. A caller that asks for the rows of
/// one waits for all sent statements, in one round trip. After a failure the server skips the statements that follow.
package final class Connection {
    let handle: OpaquePointer
    /// By SQL.
    private var prepared: [String: String] = [:]
    private var sent: [Sent] = []
    /// Whether a COMMIT was sent, and its answer is still to come.
    private(set) var mayBeCommitted = false
    /// siwatch gives up a server that is silent for longer. Nil if statements may take as long as they need.
    var longestSilence: Duration?
    /// The server cancels a statement after a minute. After a longer silence, the server is frozen, or the network keeps the connection
    /// alive without it.
    static let longestSilence = Duration.seconds(75)
    /// The floors of this server. Another server may have lost rows, and give their ids out again.
    var floors = ClaimFloors()
    private var preparations = 0

    private struct Sent {
        var answer = Answer()
        /// The SQL that it prepares.
        var sql: String?
    }

    package final class Answer {
        /// Nil until the rows have come.
        fileprivate(set) var rows: PostgresRows?
    }

    /// - Throws: `PostgresError`, or `StoreOpenError` if the server is too old to be asked, or a pooler is in the way.
    init(_ address: PostgresAddress, _ kind: SessionKind = SessionKind()) throws {
        if let problem = PostgresLibrary.problem { throw PostgresError(connection: problem) }
        guard let handle = Self.connect(try address.parameters(of: kind)) else { throw PostgresError(connection: "libpq has no memory") }
        self.handle = handle
        longestSilence = Self.longestSilence
        guard PQstatus(handle) == CONNECTION_OK else {
            // No statement was sent yet, so the message quotes no row.
            let message = lastMessage
            // Of all parameters that siwatch sets, only this one needs PostgreSQL 12.
            if message.contains("\"tcp_user_timeout\"") { throw Migrator.serverIsTooOld("older than 12") }
            // PgBouncer sends this message.
            if message.contains("unsupported startup parameter") { throw Migrator.poolerIsInTheWay }
            throw PostgresError(connection: message + Self.remedy(of: message, handle))
        }
        // libpq would print notices to the standard error of a daemon.
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
        // A DETAIL quotes rows. The message about a lost connection may include one from before.
        PQsetErrorVerbosity(handle, PQERRORS_TERSE)
        guard PQenterPipelineMode(handle) == 1, PQsetnonblocking(handle, 1) == 0 else { throw PostgresError(connection: lastMessage) }
    }

    private static func remedy(of message: String, _ handle: OpaquePointer) -> String {
        if PQconnectionNeedsPassword(handle) == 1 { return "; database.password_file names the file that holds it" }
        let hasRefused = PQconnectionUsedPassword(handle) == 1 && message.contains("authentication failed")
        return hasRefused ? "; put the role's password into the file that database.password_file names: siwatch reads it at each try" : ""
    }

    private static func connect(_ parameters: [(String, String)]) -> OpaquePointer? {
        let texts = (parameters.map { strdup($0.0) }, parameters.map { strdup($0.1) })
        defer { for text in texts.0 + texts.1 { free(text) } }
        return PQconnectdbParams(texts.0.map { UnsafePointer($0) } + [nil], texts.1.map { UnsafePointer($0) } + [nil], 1)
    }

    deinit { PQfinish(handle) }

    var isBroken: Bool { PQstatus(handle) != CONNECTION_OK }

    /// Whether the server has ended this idle connection meanwhile. A look at the socket, which does not wait.
    var hasEnded: Bool {
        var socket = pollfd(fd: PQsocket(handle), events: Int16(POLLIN), revents: 0)
        // First come the server's last words, and then the end. What else comes is a notice.
        while !isBroken, poll(&socket, 1, 0) > 0 {
            if PQconsumeInput(handle) == 0 { return true }
        }
        return isBroken
    }

    var isInTransaction: Bool { PQtransactionStatus(handle) != PQTRANS_IDLE }

    var lastMessage: String {
        let lines = String(cString: PQerrorMessage(handle)).split(whereSeparator: \.isNewline)
        return lines.map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") }.joined(separator: "; ")
    }

    @discardableResult
    func send(_ sql: SQL) throws -> Answer { try send(sql.text, sql.values.map { Parameter($0) }) }

    @discardableResult
    func send(_ sql: String, _ parameters: [Parameter]) throws -> Answer {
        let name = try prepare(sql, parameters)
        try withBytes(of: parameters) { values, lengths in
            let formats = [Int32](repeating: 1, count: parameters.count)
            try check(PQsendQueryPrepared(handle, name, Int32(parameters.count), values, lengths, formats, 1))
        }
        let answer = Answer()
        sent.append(Sent(answer: answer))
        return answer
    }

    func rows(of answer: Answer) throws -> PostgresRows {
        if answer.rows == nil { try flush() }
        guard let rows = answer.rows else { preconditionFailure("a statement of another flight") }
        return rows
    }

    func rows(_ sql: SQL) throws -> PostgresRows { try rows(of: send(sql)) }

    func sendCommit() throws {
        try send("COMMIT")
        mayBeCommitted = true
    }

    private func prepare(_ sql: String, _ parameters: [Parameter]) throws -> String {
        if let name = prepared[sql] { return name }
        preparations += 1
        let name = "s\(preparations)"
        try check(PQsendPrepare(handle, name, sql, Int32(parameters.count), parameters.map(\.type)))
        prepared[sql] = name
        sent.append(Sent(sql: sql))
        return name
    }

    private func withBytes(of parameters: [Parameter], _ body: ([UnsafePointer<CChar>?], [Int32]) throws -> Void) throws {
        // One buffer, so that all values have an address at once. An empty value needs an address too: without one it would be NULL.
        var bytes: [CChar] = [0]
        bytes.reserveCapacity(parameters.reduce(1) { $0 + ($1.bytes?.count ?? 0) })
        for parameter in parameters { parameter.bytes.map { bytes.append(contentsOf: $0.lazy.map(CChar.init(bitPattern:))) } }
        try bytes.withUnsafeBufferPointer { buffer in
            var place = buffer.baseAddress! + 1
            let values = parameters.map { parameter -> UnsafePointer<CChar>? in
                guard let bytes = parameter.bytes else { return nil }
                defer { place += bytes.count }
                return place
            }
            try body(values, parameters.map { Int32($0.bytes?.count ?? 0) })
        }
    }

    func check(_ result: Int32) throws { if result != 1 { throw PostgresError(connection: lastMessage) } }

    /// Waits until the server has answered everything.
    /// - Throws: `PostgresError` of the first statement that failed.
    func flush() throws {
        guard !sent.isEmpty else { return }
        defer { sent = [] }
        try check(PQpipelineSync(handle))
        try sendAll()
        var failure: PostgresError?
        for statement in sent {
            while let result = try nextResult() {
                switch PQresultStatus(result) {
                case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_SINGLE_TUPLE: statement.answer.rows = PostgresRows(result)
                case PGRES_PIPELINE_ABORTED:
                    PQclear(result)
                    statement.sql.map { prepared[$0] = nil }
                default:
                    defer { PQclear(result) }
                    statement.sql.map { prepared[$0] = nil }
                    failure = failure ?? PostgresError(result)
                }
            }
        }
        guard let end = try nextResult() else { throw failure ?? PostgresError(connection: "the connection was lost") }
        defer { PQclear(end) }
        // The server commits statements without a BEGIN here. So this can fail too, after all rows have come.
        guard PQresultStatus(end) == PGRES_PIPELINE_SYNC else { throw failure ?? PostgresError(end, endsConnection: true) }
        if !(failure?.losesAnswers ?? false) { mayBeCommitted = false }
        if let failure { throw failure }
    }

    private func nextResult() throws -> OpaquePointer? {
        while PQisBusy(handle) != 0 {
            try wait(for: Int16(POLLIN))
            try check(PQconsumeInput(handle))
        }
        return PQgetResult(handle)
    }

    /// Takes answers in meanwhile, because a server whose answers nobody takes stops reading.
    private func sendAll() throws {
        while true {
            switch PQflush(handle) {
            case 0: return
            case 1: if try wait(for: Int16(POLLIN | POLLOUT)) & Int16(POLLIN) != 0 { try check(PQconsumeInput(handle)) }
            default: throw PostgresError(connection: lastMessage)
            }
        }
    }

    @discardableResult
    private func wait(for events: Int16) throws -> Int16 {
        var socket = pollfd(fd: PQsocket(handle), events: events, revents: 0)
        let milliseconds = longestSilence.map { Int32($0 / .milliseconds(1)) } ?? -1
        if poll(&socket, 1, milliseconds) == 0 { throw PostgresError(connection: "the server said nothing for \(milliseconds / 1000) s") }
        return socket.revents
    }
}
