// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The state of an app's breaker in `breaker`, as JSON.
enum BreakerRow {
    /// - Parameter state: nil if the breaker has judged nothing yet.
    static func read(_ state: String?) -> StoredBreaker? {
        state.map { JSONText.decode($0).map(StoredBreaker.readable) ?? .unreadable }
    }

    /// - Returns: nil if the breaker has judged nothing yet.
    static func load(_ app: Int64, on connection: some TableConnection) throws -> StoredBreaker? {
        read(try connection.fetchOne("SELECT state FROM breaker WHERE app = \(app)")?.text(at: 0))
    }

    static func save(_ breaker: RejectionBreaker, of app: Int64, on connection: some TableConnection) throws {
        try connection.execute(
            """
            INSERT INTO breaker (app, state) VALUES (\(app), \(try JSONText.encode(breaker)))
                ON CONFLICT (app) DO UPDATE SET state = excluded.state
            """
        )
    }

    /// Changes a breaker outside of a settlement.
    static func change<Result>(
        _ app: Int64,
        at now: Timestamp,
        on connection: some TableConnection,
        _ body: (inout RejectionBreaker) throws -> Result
    ) throws -> Result {
        let row = try connection.fetchOne("SELECT state FROM breaker WHERE app = \(app) \(connection.dialect.forUpdate)")
        let stored = read(row?.text(at: 0)) ?? .readable(RejectionBreaker())
        var breaker = stored.breaker(at: now)
        let result = try body(&breaker)
        if stored != .readable(breaker) { try save(breaker, of: app, on: connection) }
        return result
    }

    static func countPending(of app: Int64, on connection: some TableConnection) throws {
        try connection.execute(
            "UPDATE app SET pending = (SELECT COUNT(*) FROM credential WHERE app = \(app) AND pending_since IS NOT NULL) WHERE id = \(app)"
        )
    }

    /// Gives a new app its row, so that PostgreSQL has a row to lock.
    static func makeLockable(_ app: String, on connection: some TableConnection) throws {
        guard connection.dialect == .postgres else { return }
        try connection.execute("INSERT INTO breaker (app) SELECT id FROM app WHERE name = \(app) ON CONFLICT DO NOTHING")
    }
}
