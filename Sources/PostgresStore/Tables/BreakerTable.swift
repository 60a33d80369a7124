// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The breakers of the apps, as JSON. Each app has its row from the beginning, so that there is one to lock.
enum BreakerTable {
    /// Holds the breakers of these apps until the transaction ends.
    static func sendLock(_ apps: [Int64], on connection: Connection) throws -> Connection.Answer {
        try connection.send(
            "SELECT app, state FROM breaker WHERE app = ANY($1) ORDER BY app FOR UPDATE",
            ArrayOf(apps)
        )
    }

    static func read(_ row: Row) -> StoredBreaker? {
        row.text(at: 1).map { JSONText.decode($0).map(StoredBreaker.readable) ?? .unreadable }
    }

    static func sendSave(_ breaker: RejectionBreaker, of app: Int64, on connection: Connection) throws {
        try connection.send("UPDATE breaker SET state = $2 WHERE app = $1", app, try JSONText.encode(breaker))
    }

    /// Changes a breaker outside of a settlement.
    static func change<Result>(
        _ app: Int64,
        at now: Timestamp,
        on connection: Connection,
        _ body: (inout RejectionBreaker) throws -> Result
    ) throws -> Result {
        let stored = try connection.rows("SELECT app, state FROM breaker WHERE app = $1 FOR UPDATE", app).first.flatMap(read)
        var breaker = (stored ?? .readable(RejectionBreaker())).breaker(at: now)
        let result = try body(&breaker)
        if (stored ?? .readable(RejectionBreaker())) != .readable(breaker) { try sendSave(breaker, of: app, on: connection) }
        return result
    }

    /// `CredentialRecord.forgetRejection` of all that wait in an app. How many do is to be counted afterwards.
    ///
    /// Here a settlement waits for credentials while it holds a breaker, out of order: a rejection that was passed over might be believed
    /// once the breaker has closed. Where two wait for each other, one is told so and comes again.
    static func sendClearPending(of app: Int64, interval: Duration, on connection: Connection) throws {
        try connection.send(
            """
            UPDATE credential c SET pending_since = NULL, pending_asked_at = NULL, pending_key = NULL,
                                    due_at = GREATEST(c.due_at, c.answered_at + $2)
              FROM (SELECT user_id, client FROM credential WHERE app = $1 AND pending_since IS NOT NULL
                     ORDER BY user_id, client FOR UPDATE) w
             WHERE c.user_id = w.user_id AND c.client = w.client
            """,
            app,
            interval.milliseconds
        )
    }

    /// To be sent with the tail.
    static func sendCountPending(of app: Int64, on connection: Connection) throws {
        try connection.send(
            "UPDATE app SET pending = (SELECT COUNT(*) FROM credential WHERE app = $1 AND pending_since IS NOT NULL) WHERE id = $1",
            app
        )
    }
}
