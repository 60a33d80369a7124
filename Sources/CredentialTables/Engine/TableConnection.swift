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

    /// Runs a statement.
    ///
    /// - Returns: the number of changed rows.
    @discardableResult
    func change(_ sql: SQL) throws -> Int

    /// Runs a statement without using its answer. The call does not wait for a server: a later statement or the commit throws the error.
    func execute(_ sql: SQL) throws

    /// Runs a statement for many rows without using its answer. The call does not wait for a server.
    func execute(_ statement: RowStatement, _ rows: [[ColumnValue]], _ shared: [ColumnValue]) throws

    /// Sends a query without waiting for a server.
    func ask(_ sql: SQL) throws -> Answer

    /// Sends a query for many rows without waiting for a server.
    ///
    /// - Returns: nil if there are no rows.
    func ask(_ statement: RowStatement, _ rows: [[ColumnValue]], _ shared: [ColumnValue]) throws -> Answer?

    /// Reads an answer, in the transaction that asked.
    ///
    /// - Parameter place: of the row among those that were sent. For a server, the statement has to return it in its last column.
    func forEachRow(of answer: Answer?, _ body: (_ place: Int, _ row: AnswerRow) throws -> Void) throws

    /// Runs statements in a savepoint, and undoes all of them if the engine refuses one.
    ///
    /// - Throws: `StoreError.refused` if a constraint does not hold. The transaction goes on.
    func inSavepoint<Value>(_ body: () throws -> Value) throws -> Value

    /// Takes the lock that every transaction takes last. It guards the counters and the ids of the change feed.
    func lockSettlements() throws

    // MARK: Differences of the engines

    /// Begins a search for due checks.
    ///
    /// - Returns: the due time from which on it has to look. While somebody in a server's database holds a snapshot, a search from the
    ///   beginning would read past all rows that were claimed since.
    func begin(_ search: CheckSearch, at now: Timestamp) -> Timestamp

    /// Ends a search.
    ///
    /// - Parameters:
    ///   - first: the first due time that it found.
    ///   - place: up to here the claim takes everything that it saw.
    func end(_ search: CheckSearch, at now: Timestamp, from first: Timestamp?, upTo place: Timestamp)

    /// Asks which claims still hold their row of `notification_queue`. A server locks the rows.
    func askHeld(notifications claims: [(id: Int64, claim: Claim)]) throws -> () throws -> [Int64: Claim]

    /// Checks that the tables hold the clients of the directory and no others. Another replica may have registered some.
    func confirm(_ directory: ClientDirectory) throws

    /// Moves notifications from the queue into the log. Logs an event as a duplicate if the log has it already.
    ///
    /// - Returns: after the commit, the settlements that were duplicates.
    func log(_ notifications: [LoggedNotification], at now: Timestamp) throws -> () throws -> [Int]

    /// Takes the lock of `lockSettlements`, and appends rows to `credential_change`.
    func lockSettlements(publishing rows: [[ColumnValue]]) throws

    /// Deletes the oldest rows of a ring of the quarantine until it is small enough, and counts them.
    ///
    /// - Returns: after the commit, the number of deleted rows.
    func evict(from ring: UnsignedRing) throws -> () throws -> Int

    /// Makes postponed notifications due.
    func releaseNotifications() throws

    /// Checks that no replica works on the store, and lets none start until the transaction ends.
    ///
    /// - Throws: `AppRenameError.inUse`.
    func beginRename(of app: String) throws
}

extension TableConnection {
    /// The first row of a statement; nil if it has none.
    package func fetchOne(_ sql: SQL) throws -> Row? { try fetchAll(sql).first }

    /// The rows of a statement, decoded by their column names.
    package func fetchValues<Fetched: Decodable>(_ sql: SQL) throws -> [Fetched] {
        try fetchAll(sql).map { try Fetched(from: RowDecoder(row: $0)) }
    }

    /// The first column of the first row; 0 if there is no row.
    package func fetchInt(_ sql: SQL) throws -> Int { try fetchOne(sql)?.int(at: 0) ?? 0 }

    /// Whether a query has a row.
    package func exists(_ query: SQL) throws -> Bool { try fetchOne("SELECT EXISTS (\(query))")?.bool(at: 0) ?? false }

    package func count(_ query: SQL) throws -> Int { try fetchInt("SELECT COUNT(*) FROM (\(query)) AS found") }

    package func execute(_ statement: RowStatement, _ rows: [[ColumnValue]]) throws {
        try execute(statement, rows, [])
    }

    package func ask(_ statement: RowStatement, _ rows: [[ColumnValue]]) throws -> Answer? {
        try ask(statement, rows, [])
    }

    /// Reads an answer into values.
    package func read<Value>(_ answer: Answer?, _ value: (AnswerRow) throws -> Value) throws -> [Value] {
        var read: [Value] = []
        try forEachRow(of: answer) { _, row in read.append(try value(row)) }
        return read
    }
}

extension TableConnection {
    /// Adds to a counter. The caller holds the lock on the tail.
    package func add(_ amount: Int, to counter: String) throws {
        guard amount != 0 else { return }
        try execute(
            """
            INSERT INTO counter AS c (name, value) VALUES (\(counter), \(amount))
                ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value
            """
        )
    }

    /// Adds to the counts of each app. The caller holds the lock on the tail.
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

    /// Counts checks, and when the last were. The caller holds the lock on the tail.
    package func add(_ checks: (answered: Int, failed: Int), at now: Timestamp) throws {
        let counters = [
            (checks.answered, CheckCounter.answered, CheckCounter.answeredAt), (checks.failed, CheckCounter.failed, CheckCounter.failedAt),
        ]
        for (count, counter, time) in counters where count > 0 {
            try add(count, to: counter)
            try set(time, to: now.milliseconds)
        }
    }

    /// Sets a counter. The caller holds the lock on the tail.
    package func set(_ counter: String, to value: Int64) throws {
        try execute(
            "INSERT INTO counter (name, value) VALUES (\(counter), \(value)) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
    }
}
