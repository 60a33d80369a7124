// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit
package import GRDB

/// What an app's backend does with the database: a second process's view of it, with the pragmas that docs/schema.md asks for.
package struct Backend: Sendable {
    private let queue: DatabaseQueue

    package init(databasePath: String) throws {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON; PRAGMA synchronous = FULL")
        }
        queue = try DatabaseQueue(path: databasePath, configuration: configuration)
    }

    /// Reports sign-ins, in one transaction.
    package func insert(_ signIns: [SignIn]) async throws {
        try await queue.write { db in
            let statement = try db.cachedStatement(
                sql: """
                    INSERT INTO grant_queue (client_id, user_id, refresh_token, email, email_is_private, granted_at)
                    VALUES (?, ?, ?, ?, ?, ?)
                    """
            )
            for signIn in signIns {
                try statement.execute(arguments: [
                    signIn.clientID, signIn.userID, signIn.refreshToken, signIn.email, signIn.emailIsPrivate, signIn.grantedAt.milliseconds,
                ])
            }
        }
    }

    /// Stores notifications as they came, in one transaction.
    package func insert(notifications: [String]) async throws {
        try await queue.write { db in
            let statement = try db.cachedStatement(sql: "INSERT INTO notification_queue (payload) VALUES (?)")
            for body in notifications { try statement.execute(arguments: [body]) }
        }
    }

    package func execute(_ sql: String, _ arguments: StatementArguments = []) async throws {
        try await queue.write { db in try db.execute(sql: sql, arguments: arguments) }
    }

    package func rows(_ sql: String, _ arguments: StatementArguments = []) async throws -> [Row] {
        try queue.read { db in try Row.fetchAll(db, sql: sql, arguments: arguments) }
    }

    package func int(_ sql: String, _ arguments: StatementArguments = []) async throws -> Int {
        try await queue.read { db in try Int.fetchOne(db, sql: sql, arguments: arguments) ?? 0 }
    }

    /// Waits until a query that counts comes to `value`.
    ///
    /// - Throws: with the last value seen, once `limit` is over.
    package func until(_ sql: String, is value: Int, within limit: Duration = .seconds(120)) async throws {
        let seen = try await first(of: sql, within: limit) { $0 == value }
        guard seen == value else { throw HarnessError("\(sql): still \(seen) instead of \(value) after \(limit)") }
    }

    /// The first value of a query that counts to meet a condition, or the last one seen once `limit` is over.
    ///
    /// It looks again whenever somebody has committed; SQLite tells of other processes' commits only when asked.
    @discardableResult
    package func first(of sql: String, within limit: Duration, where isMet: (Int) -> Bool) async throws -> Int {
        let end = ContinuousClock.now + limit
        while true {
            let version = try await dataVersion()
            let seen = try await int(sql)
            if isMet(seen) { return seen }
            while try await dataVersion() == version {
                guard .now < end else { return seen }
                try await Task.sleep(for: .milliseconds(2))
            }
        }
    }

    private func dataVersion() async throws -> Int {
        try await queue.unsafeRead { db in try Int.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) ?? 0 }
    }

    package func close() throws {
        try queue.close()
    }
}
