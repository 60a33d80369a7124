// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// The breakers of the apps, as JSON.
enum BreakerTable {
    /// - Returns: nil for an app whose breaker has judged nothing yet.
    static func load(_ app: Int64, in db: Database) throws -> StoredBreaker? {
        try String.fetchOne(db.cachedStatement(sql: "SELECT state FROM breaker WHERE app = ?"), arguments: [app]).map(read)
    }

    static func read(_ state: String) -> StoredBreaker {
        JSONText.decode(state).map(StoredBreaker.readable) ?? .unreadable
    }

    static func save(_ breaker: RejectionBreaker, of app: Int64, in db: Database) throws {
        try db.execute(
            cached: "INSERT INTO breaker (app, state) VALUES (?, ?) ON CONFLICT (app) DO UPDATE SET state = excluded.state",
            [app, try JSONText.encode(breaker)]
        )
    }

    /// Changes a breaker outside of a settlement.
    static func change<Result>(
        _ app: Int64,
        at now: Timestamp,
        in db: Database,
        _ body: (inout RejectionBreaker) throws -> Result
    ) throws -> Result {
        let stored = try load(app, in: db) ?? .readable(RejectionBreaker())
        var breaker = stored.breaker(at: now)
        let result = try body(&breaker)
        if stored != .readable(breaker) { try save(breaker, of: app, in: db) }
        return result
    }

    /// `CredentialRecord.forgetRejection` of all that wait in an app. How many do is to be counted afterwards.
    static func clearPending(of app: Int64, interval: Duration, in db: Database) throws {
        try db.execute(
            cached: """
                UPDATE credential SET pending_since = NULL, pending_asked_at = NULL, pending_key = NULL,
                                      due_at = MAX(due_at, answered_at + ?2)
                 WHERE app = ?1 AND pending_since IS NOT NULL
                """,
            [app, interval.milliseconds]
        )
    }

    static func countPending(of app: Int64, in db: Database) throws {
        try db.execute(
            cached: "UPDATE app SET pending = (SELECT COUNT(*) FROM credential WHERE app = ?1 AND pending_since IS NOT NULL) WHERE id = ?1",
            [app]
        )
    }
}
