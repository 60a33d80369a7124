// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import Foundation

/// One connection to a server, in the hands of one thread.
///
/// Statements are sent without waiting, and prepared on their first use. Whoever asks for the rows of one waits for all that were sent, in
/// one round trip. After a failure nothing of what follows it is carried out, and the wait throws it.
package final class Connection {
    let handle: OpaquePointer
    /// By their SQL.
    private var prepared: [String: String] = [:]
    private var sent: [Sent] = []
    /// Whether a COMMIT was sent whose answer is still to come.
    private(set) var mayBeCommitted = false
    /// A server that says nothing for longer is given up. Nil where statements may take as long as they need.
    var longestSilence: Duration?
    /// The server gives up a statement after a minute. So it is frozen, or something on the road keeps the connection alive without it.
    static let longestSilence = Duration.seconds(75)
    /// Of this server: another one may have lost rows, and give their ids out again.
    var floors = ClaimFloors()
    private var preparations = 0

    private struct Sent {
        var answer: Answer
        /// What it prepares.
        var sql: String?
    }

    /// What a statement that was sent comes to.
    final class Answer {
        /// Nil until they are there.
        fileprivate(set) var rows: PostgresRows?
    }

    /// - Throws: `PostgresError`, or `StoreOpenError` where the server is too old to be asked, or no server is.
    init(
        _ address: PostgresAddress,
        isForReading: Bool = false,
        usesIndexes: Bool = false,
        longestLockWait: Duration = .seconds(10),
        longestSilence: Duration = Connection.longestSilence
    ) throws {
        if let problem = PostgresLibrary.problem { throw PostgresError(connection: problem) }
        let parameters = try address.parameters(isForReading: isForReading, usesIndexes: usesIndexes, longestLockWait: longestLockWait)
        guard let handle = Self.connect(parameters) else {
            throw PostgresError(connection: "libpq has no memory")
        }
        self.handle = handle
        self.longestSilence = longestSilence
        guard PQstatus(handle) == CONNECTION_OK else {
            // Before a statement was sent, there is no row to quote.
            let message = lastMessage
            // Of all that a connection asks for, this is known to PostgreSQL from 12 on.
            if message.contains("\"tcp_user_timeout\"") { throw Migrator.serverIsTooOld("older than 12") }
            // As PgBouncer says it.
            if message.contains("unsupported startup parameter") { throw Migrator.poolerIsInTheWay }
            let mend = PQconnectionNeedsPassword(handle) == 1 ? "; database.password_file names the file that holds it" : ""
            throw PostgresError(connection: message + mend)
        }
        // What libpq would print to the standard error of a daemon.
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
        // A DETAIL quotes rows; what is said of a lost connection may have one before it.
        PQsetErrorVerbosity(handle, PQERRORS_TERSE)
        guard PQenterPipelineMode(handle) == 1, PQsetnonblocking(handle, 1) == 0 else { throw PostgresError(connection: lastMessage) }
    }

    private static func connect(_ parameters: [(String, String)]) -> OpaquePointer? {
        let texts = (parameters.map { strdup($0.0) }, parameters.map { strdup($0.1) })
        defer { for text in texts.0 + texts.1 { free(text) } }
        return PQconnectdbParams(texts.0.map { UnsafePointer($0) } + [nil], texts.1.map { UnsafePointer($0) } + [nil], 1)
    }

    deinit {
        PQfinish(handle)
    }

    var isBroken: Bool { PQstatus(handle) != CONNECTION_OK }

    var isInTransaction: Bool { PQtransactionStatus(handle) != PQTRANS_IDLE }

    var lastMessage: String {
        String(cString: PQerrorMessage(handle)).split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    // MARK: Statements

    /// Sends a statement, and does not wait.
    @discardableResult
    func send<each Value: ParameterValue>(_ sql: String, _ values: repeat each Value) throws -> Answer {
        var parameters: [Parameter] = []
        for value in repeat each values { parameters.append(value.parameter) }
        return try send(sql, parameters)
    }

    /// Sends a statement of many rows, or nothing where there is none.
    func send(_ sql: String, _ rows: RowArrays, _ others: [Parameter] = []) throws {
        if rows.count > 0 { try send(sql, rows.parameters + others) }
    }

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

    /// Waits for the rows of a statement.
    func rows(of answer: Answer) throws -> PostgresRows {
        if answer.rows == nil { try flush() }
        guard let rows = answer.rows else { preconditionFailure("a statement of another flight") }
        return rows
    }

    func rows<each Value: ParameterValue>(_ sql: String, _ values: repeat each Value) throws -> PostgresRows {
        try rows(of: send(sql, repeat each values))
    }

    /// How many rows a statement changed.
    @discardableResult
    func run<each Value: ParameterValue>(_ sql: String, _ values: repeat each Value) throws -> Int {
        try rows(sql, repeat each values).changed
    }

    func sendCommit() throws {
        try send("COMMIT")
        mayBeCommitted = true
    }

    private func prepare(_ sql: String, _ parameters: [Parameter]) throws -> String {
        if let name = prepared[sql] { return name }
        preparations += 1
        let name = "s\(preparations)"
        let types = parameters.map(\.type)
        try check(PQsendPrepare(handle, name, sql, Int32(types.count), types))
        prepared[sql] = name
        sent.append(Sent(answer: Answer(), sql: sql))
        return name
    }

    private func withBytes(of parameters: [Parameter], _ body: ([UnsafePointer<CChar>?], [Int32]) throws -> Void) throws {
        // In one piece, so that all of them have an address at once. A value of no bytes needs one as well: without, it would be NULL.
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

    private func check(_ result: Int32) throws {
        if result != 1 { throw PostgresError(connection: lastMessage) }
    }

    // MARK: Waiting

    /// Waits until everything that was sent has been answered.
    ///
    /// - Throws: `PostgresError`, of the first statement that failed.
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
        // What was sent without a BEGIN is committed here: it may fail here too, after all its rows have come.
        guard PQresultStatus(end) == PGRES_PIPELINE_SYNC else { throw failure ?? PostgresError(end, endsConnection: true) }
        if let failure {
            if !failure.losesAnswers { mayBeCommitted = false }
            throw failure
        }
        mayBeCommitted = false
    }

    /// Nil after the last of a statement.
    private func nextResult() throws -> OpaquePointer? {
        while PQisBusy(handle) != 0 {
            try wait(for: Int16(POLLIN))
            try check(PQconsumeInput(handle))
        }
        return PQgetResult(handle)
    }

    /// Takes answers in meanwhile: a server whose answers nobody takes reads no more.
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

extension Connection {
    /// Forgets what failed, so that the connection can be used again.
    func rollBack() throws {
        try flush()
        if isInTransaction { try run("ROLLBACK") }
    }

    /// Whether no pooler stands between: one gives its clients numbers of its own.
    func speaksWithTheServerItself() throws -> Bool {
        try rows("SELECT pg_backend_pid()").integer == Int(PQbackendPID(handle))
    }

    /// The descriptor, for whoever waits for more than one.
    var descriptor: Int32 { PQsocket(handle) }

    /// Names of the channels on which somebody has notified since the last look.
    func notifications() throws -> [String] {
        try check(PQconsumeInput(handle))
        var channels: [String] = []
        while let notification = PQnotifies(handle) {
            channels.append(String(cString: notification.pointee.relname))
            PQfreemem(notification)
        }
        return channels
    }

    /// Runs a script of the program's own.
    func runScript(_ sql: String) throws {
        guard PQexitPipelineMode(handle) == 1, PQsetnonblocking(handle, 0) == 0 else { throw PostgresError(connection: lastMessage) }
        defer {
            PQsetnonblocking(handle, 1)
            PQenterPipelineMode(handle)
        }
        let result = PQexec(handle, sql)
        defer { PQclear(result) }
        guard [PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY].contains(PQresultStatus(result)) else { throw PostgresError(result) }
    }
}
