// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A connection to an engine, in the hands of one thread, within a query or a transaction.
///
/// Statements name their parameters `$1`, `$2` and so on, which both engines take.
package protocol TableConnection {
    associatedtype Row: FetchedRow

    var dialect: Dialect { get }

    /// The rows of a statement.
    func fetchAll(_ sql: String, _ values: [ColumnValue]) throws -> [Row]

    /// Runs a statement.
    ///
    /// - Returns: how many rows it changed.
    func change(_ sql: String, _ values: [ColumnValue]) throws -> Int

    /// Runs a statement whose answer nobody needs. A server is not waited for: a later statement or the commit throws the error.
    func execute(_ sql: String, _ values: [ColumnValue]) throws

    /// Runs statements that are taken back if one of them is refused.
    ///
    /// - Throws: `StoreError.refused` where a constraint does not hold; the transaction goes on.
    func inSavepoint<Value>(_ body: () throws -> Value) throws -> Value

    /// Takes the lock that each transaction takes last: it guards what is counted and the ids of the change feed.
    func lockSettlements() throws

    // MARK: What an operator's request shares with settlements

    /// Users with all that is kept of them. No other transaction changes them until this one ends.
    func users(_ ids: [AppUserID], in directory: ClientDirectory) throws -> [AppUserID: UserRecord]

    /// Writes what has changed of users, and then what is counted of their apps.
    func save(_ users: [UserRecord], tallies: [String: UserRecord.Tally], in directory: ClientDirectory) throws

    // MARK: What the engines do differently

    /// Gives credentials an earlier check, unless one has been claimed or has moved since it was read. Their rejections do not wait any more.
    func bringForward(_ slots: [RecheckSlot], of app: Int64) throws

    /// Makes notifications due that were put off.
    func releaseNotifications() throws

    /// Makes sure that no replica is at work, and that none starts until the transaction ends.
    ///
    /// - Throws: `AppRenameError.inUse`.
    func beginRename(of app: String) throws
}

/// When Apple is to be asked about a credential.
package struct RecheckSlot: Sendable {
    package var userID: String
    package var client: Int64
    package var dueAt: Timestamp
    /// When its check was due before.
    package var formerDueAt: Timestamp?
}

extension TableConnection {
    package func fetchAll<each Value: BindableValue>(_ sql: String, _ values: repeat each Value) throws -> [Row] {
        try fetchAll(sql, Self.list(repeat each values))
    }

    /// The first row of a statement; nil where it has none.
    package func fetchOne<each Value: BindableValue>(_ sql: String, _ values: repeat each Value) throws -> Row? {
        try fetchAll(sql, Self.list(repeat each values)).first
    }

    /// The rows of a statement as values, by the names of their columns.
    package func fetchValues<Fetched: Decodable, each Value: BindableValue>(
        _ sql: String,
        _ values: repeat each Value
    ) throws -> [Fetched] {
        try fetchAll(sql, Self.list(repeat each values)).map { try Fetched(from: RowDecoder(row: $0)) }
    }

    /// The first column of the first row; 0 where there is none.
    package func fetchInt<each Value: BindableValue>(_ sql: String, _ values: repeat each Value) throws -> Int {
        try fetchAll(sql, Self.list(repeat each values)).first?.int(at: 0) ?? 0
    }

    /// Whether a query has a row.
    package func exists<each Value: BindableValue>(_ query: String, _ values: repeat each Value) throws -> Bool {
        try fetchAll("SELECT EXISTS (\(query))", Self.list(repeat each values)).first?.bool(at: 0) ?? false
    }

    /// How many rows a query has.
    package func count<each Value: BindableValue>(_ query: String, _ values: repeat each Value) throws -> Int {
        try fetchAll("SELECT COUNT(*) FROM (\(query)) AS found", Self.list(repeat each values)).first?.int(at: 0) ?? 0
    }

    @discardableResult
    package func change<each Value: BindableValue>(_ sql: String, _ values: repeat each Value) throws -> Int {
        try change(sql, Self.list(repeat each values))
    }

    package func execute<each Value: BindableValue>(_ sql: String, _ values: repeat each Value) throws {
        try execute(sql, Self.list(repeat each values))
    }

    private static func list<each Value: BindableValue>(_ values: repeat each Value) -> [ColumnValue] {
        var list: [ColumnValue] = []
        for value in repeat each values { list.append(value.columnValue) }
        return list
    }
}

extension TableConnection {
    /// Adds to a counter, under the lock on the tail.
    package func add(_ amount: Int, to counter: String) throws {
        guard amount != 0 else { return }
        try execute(
            """
            INSERT INTO counter AS c (name, value) VALUES ($1, $2)
                ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value
            """,
            counter,
            amount
        )
    }

    /// Sets a counter, under the lock on the tail.
    package func set(_ counter: String, to value: Int64) throws {
        try execute(
            "INSERT INTO counter (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            counter,
            value
        )
    }
}
