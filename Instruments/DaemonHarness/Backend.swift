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

    /// Reports sign-ins by their codes, in one transaction.
    package func insert(codes: [CodeRow]) async throws {
        try await queue.write { db in
            for row in codes {
                let values: KeyValuePairs<String, (any DatabaseValueConvertible)?> = [
                    "client_id": row.clientID,
                    "authorization_code": row.code,
                    "user_id": row.userID,
                    "redirect_uri": row.redirectURI,
                    "nonce": row.nonce,
                    "granted_at": row.grantedAt?.milliseconds,
                ]
                try Self.insert(values, into: "grant_queue", db)
            }
        }
    }

    /// Asks for the revocation of what users have granted to a client, in one transaction.
    package func insert(revocationsOf users: [String], at clientID: String, requestedAt: Moment? = nil) async throws {
        try await queue.write { db in
            for user in users {
                let values: KeyValuePairs<String, (any DatabaseValueConvertible)?> = [
                    "client_id": clientID,
                    "user_id": user,
                    "requested_at": requestedAt?.milliseconds,
                ]
                try Self.insert(values, into: "revocation_queue", db)
            }
        }
    }

    /// Names only the columns that have a value, and so leaves the others to their defaults.
    private static func insert(
        _ values: KeyValuePairs<String, (any DatabaseValueConvertible)?>,
        into table: String,
        _ db: Database
    ) throws {
        let given = values.filter { $0.value != nil }
        let columns = given.map(\.key).joined(separator: ", ")
        let marks = given.map { _ in "?" }.joined(separator: ", ")
        try db.cachedStatement(sql: "INSERT INTO \(table) (\(columns)) VALUES (\(marks))")
            .execute(arguments: StatementArguments(given.map(\.value)))
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
