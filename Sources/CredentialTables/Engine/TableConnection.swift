// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A connection to an engine. One thread uses it, within a query or a transaction.
package protocol TableConnection {
    associatedtype Row: FetchedRow
    /// The answer to a statement that was sent and is still to be read. SQLite runs the statement only when the answer is read.
    associatedtype Answer
    associatedtype AnswerRow: TableRow

    var dialect: Dialect { get }

    func fetchAll(_ sql: SQL) throws -> [Row]

    /// - Returns: the number of changed rows.
    @discardableResult
    func change(_ sql: SQL) throws -> Int

    /// Runs a statement without using its answer. The call does not wait for a server: a later statement or the commit throws the error.
    func execute(_ sql: SQL) throws

    func execute(_ statement: RowStatement, _ rows: [[ColumnValue]], _ shared: [ColumnValue]) throws

    /// Sends a query without waiting for a server.
    func ask(_ sql: SQL) throws -> Answer

    /// - Returns: nil if there are no rows.
    func ask(_ statement: RowStatement, _ rows: [[ColumnValue]], _ shared: [ColumnValue]) throws -> Answer?

    /// Reads an answer, in the transaction that asked.
    /// - Parameter place: of the row among those that were sent. For a server, the statement has to return it in its last column.
    func forEachRow(of answer: Answer?, _ body: (_ place: Int, _ row: AnswerRow) throws -> Void) throws

    /// Undoes all statements if the engine refuses one.
    /// - Throws: `StoreError.refused` if a constraint does not hold. The transaction goes on.
    func inSavepoint<Value>(_ body: () throws -> Value) throws -> Value

    /// Takes the lock that every transaction takes last. It guards the counters and the ids of the change feed.
    func lockSettlements() throws

    // MARK: Differences of the engines

    /// Begins a search for due checks at the returned due time. While somebody in a server's database holds a snapshot, a search from the
    /// beginning would read past all rows that were claimed since.
    func begin(_ search: CheckSearch, at now: Timestamp) -> Timestamp

    /// Ends a search.
    /// - Parameter place: up to here the claim takes everything that it saw.
    func end(_ search: CheckSearch, at now: Timestamp, from first: Timestamp?, upTo place: Timestamp)

    /// Asks which claims still hold their row of `notification_queue`. A server locks the rows.
    func askHeld(notifications claims: [(id: Int64, claim: Claim)]) throws -> () throws -> [Int64: Claim]

    /// Checks that the tables hold the clients of the directory and no others. Another replica may have registered some.
    func confirm(_ directory: ClientDirectory) throws

    /// Moves notifications into the log. Logs an event as a duplicate if the log has it already.
    /// - Returns: after the commit, the settlements that were duplicates.
    func log(_ notifications: [NotificationEntry], at now: Timestamp) throws -> () throws -> [Int]

    /// Takes the lock of `lockSettlements`, and appends rows to `credential_change`.
    func lockSettlements(publishing rows: [[ColumnValue]]) throws

    /// Deletes the oldest rows of a ring of the quarantine until it is small enough.
    /// - Returns: after the commit, the number of deleted rows.
    func evict(from ring: UnsignedRing) throws -> () throws -> Int

    func releaseNotifications() throws

    /// Checks that no replica works on the store, and lets none start until the transaction ends.
    /// - Throws: `AppRenameError.inUse`.
    func beginRename(of app: String) throws
}

extension TableConnection {
    package func fetchOne(_ sql: SQL) throws -> Row? { try fetchAll(sql).first }

    /// The rows of a statement, decoded by their column names.
    package func fetchValues<Fetched: Decodable>(_ sql: SQL) throws -> [Fetched] {
        try fetchAll(sql).map { try Fetched(from: RowDecoder(row: $0)) }
    }

    /// The first column of the first row; 0 if there is no row.
    package func fetchInt(_ sql: SQL) throws -> Int { try fetchOne(sql)?.int(at: 0) ?? 0 }

    package func exists(_ query: SQL) throws -> Bool { try fetchOne("SELECT EXISTS (\(query))")?.bool(at: 0) ?? false }

    /// - Returns: the id of the new row.
    func insert(_ row: SQL) throws -> Int64 { try fetchOne("INSERT INTO \(row) RETURNING id")?.integer(at: 0) ?? 0 }

    package func count(_ query: SQL) throws -> Int { try fetchInt("SELECT COUNT(*) FROM (\(query)) AS found") }
    package func execute(_ statement: RowStatement, _ rows: [[ColumnValue]]) throws { try execute(statement, rows, []) }
    package func ask(_ statement: RowStatement, _ rows: [[ColumnValue]]) throws -> Answer? { try ask(statement, rows, []) }

    package func read<Value>(_ answer: Answer?, _ value: (AnswerRow) throws -> Value) throws -> [Value] {
        var read: [Value] = []
        try forEachRow(of: answer) { _, row in read.append(try value(row)) }
        return read
    }
}

/// Counts. The caller holds the lock on the tail.
extension TableConnection {
    package func add(_ amount: Int, to counter: String) throws {
        guard amount != 0 else { return }
        try execute(
            """
            INSERT INTO counter AS c (name, value) VALUES (\(counter), \(amount))
                ON CONFLICT (name) DO UPDATE SET value = \(dialect.least)(c.value, \(Int64.max / 2)) + excluded.value
            """
        )
    }

    package func add(_ tallies: [String: UserRecord.Tally], in directory: ClientDirectory) throws {
        for (app, change) in tallies {
            try execute(
                """
                UPDATE app SET unverified = unverified + \(change.unverified), pending = pending + \(change.pending),
                               never_accepted = never_accepted + \(change.neverAccepted),
                               foreign_tokens = foreign_tokens + \(change.foreign), ended = ended + \(change.ended),
                               unproven = unproven + \(change.unproven)
                 WHERE id = \(directory.app(app).id)
                """
            )
        }
    }

    package func add(_ checks: (answered: Int, failed: Int), at now: Timestamp) throws {
        try add(checks.answered, to: CheckCounter.answered)
        if checks.answered > 0 { try set(CheckCounter.answeredAt, to: now.milliseconds) }
        try add(checks.failed, to: CheckCounter.failed)
        if checks.failed > 0 { try set(CheckCounter.failedAt, to: now.milliseconds) }
    }

    package func set(_ counter: String, to value: Int64) throws {
        try execute(
            "INSERT INTO counter (name, value) VALUES (\(counter), \(value)) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
    }
}
