// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit
package import GRDB

/// An app's backend as docs/schema.md describes it: a second process that works with the database.
package struct Backend: Sendable {
    private let database: any BackendDatabase

    package init(databasePath: String) throws { database = try BackendFile(path: databasePath) }
    package init(_ schema: ServerSchema) throws { database = try BackendServer(schema.address, schema: schema.name, keepsNotes: true) }

    package init(on server: PostgresServer, as user: String, schema: String = "public") throws {
        database = try BackendServer(server.address(user: user), schema: schema, keepsNotes: false)
    }

    package func insert(_ signIns: [SignIn]) async throws {
        let columns = "client_id, user_id, refresh_token, email, email_is_private, granted_at"
        try await database.transaction(
            signIns.map { signIn in
                let row: [(any DatabaseValueConvertible)?] = [
                    signIn.clientID, signIn.userID, signIn.refreshToken, signIn.email, signIn.emailIsPrivate.map { $0 ? 1 : 0 },
                    signIn.grantedAt.milliseconds,
                ]
                return ("INSERT INTO grant_queue (\(columns)) VALUES (?, ?, ?, ?, ?, ?)", row.map { $0?.databaseValue ?? .null })
            }
        )
    }

    package func insert(codes: [CodeRow]) async throws {
        try await database.transaction(
            codes.map { row in
                Self.insertion(
                    into: "grant_queue",
                    [
                        "client_id": row.clientID,
                        "authorization_code": row.code,
                        "user_id": row.userID,
                        "redirect_uri": row.redirectURI,
                        "nonce": row.nonce,
                        "granted_at": row.grantedAt?.milliseconds,
                    ]
                )
            }
        )
    }

    /// Asks siwatch to revoke the users' grants to a client, in one transaction.
    package func insert(revocationsOf users: [String], at clientID: String, requestedAt: Moment? = nil) async throws {
        try await database.transaction(
            users.map { user in
                Self.insertion(
                    into: "revocation_queue",
                    ["client_id": clientID, "user_id": user, "requested_at": requestedAt?.milliseconds]
                )
            }
        )
    }

    /// Names only the columns that have a value, so that the others get their defaults.
    private static func insertion(
        into table: String,
        _ values: KeyValuePairs<String, (any DatabaseValueConvertible)?>
    ) -> (sql: String, arguments: [DatabaseValue]) {
        let given = values.filter { $0.value != nil }
        let columns = given.map(\.key).joined(separator: ", ")
        let marks = given.map { _ in "?" }.joined(separator: ", ")
        return ("INSERT INTO \(table) (\(columns)) VALUES (\(marks))", given.map { $0.value?.databaseValue ?? .null })
    }

    package func insert(notifications: [String]) async throws {
        let sql = "INSERT INTO notification_queue (payload) VALUES (?)"
        try await database.transaction(notifications.map { (sql, [database.payload($0)]) })
    }

    package func execute(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?] = []) async throws {
        try await database.execute(sql, arguments.map { $0?.databaseValue ?? .null })
    }

    package func rows(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?] = []) async throws -> [Row] {
        try await database.rows(sql, arguments.map { $0?.databaseValue ?? .null })
    }

    package func int(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?] = []) async throws -> Int {
        try await rows(sql, arguments).first?[0] ?? 0
    }

    /// Waits until a query that counts returns `value`.
    package func until(_ sql: String, is value: Int, within limit: Duration = .seconds(120)) async throws {
        let seen = try await first(of: sql, within: limit) { $0 == value }
        guard seen == value else { throw HarnessError("\(sql): still \(seen) instead of \(value) after \(limit)") }
    }

    /// The first value of a query that counts to meet a condition, or the last value after `limit`.
    ///
    /// It queries again after each possible commit of another process.
    @discardableResult
    package func first(of sql: String, within limit: Duration, where isMet: (Int) -> Bool) async throws -> Int {
        let end = ContinuousClock.now + limit
        while true {
            let version = try await database.version()
            let seen = try await int(sql)
            if isMet(seen) { return seen }
            repeat {
                guard .now < end else { return seen }
                try await Task.sleep(for: .milliseconds(20))
            } while try await database.version().map { $0 == version } ?? false
        }
    }

    package func close() throws { try database.close() }
}

/// The database of a backend. Statements use SQLite's syntax.
protocol BackendDatabase: Sendable {
    func transaction(_ statements: [(sql: String, arguments: [DatabaseValue])]) async throws
    /// Runs one statement, or several without arguments, in one transaction.
    func execute(_ sql: String, _ arguments: [DatabaseValue]) async throws
    func rows(_ sql: String, _ arguments: [DatabaseValue]) async throws -> [Row]
    func payload(_ body: String) -> DatabaseValue
    /// Changes when other connections commit; nil if the database cannot tell.
    func version() async throws -> Int?
    func close() throws
}

/// An SQLite file, with the pragmas that docs/backend-sqlite.md asks for.
struct BackendFile: BackendDatabase {
    private let queue: DatabaseQueue

    init(path: String) throws {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON; PRAGMA synchronous = FULL")
        }
        queue = try DatabaseQueue(path: path, configuration: configuration)
    }

    func transaction(_ statements: [(sql: String, arguments: [DatabaseValue])]) async throws {
        try await queue.write { db in
            for (sql, arguments) in statements { try db.cachedStatement(sql: sql).execute(arguments: StatementArguments(arguments)) }
        }
    }

    func execute(_ sql: String, _ arguments: [DatabaseValue]) async throws {
        try await queue.write { db in try db.execute(sql: sql, arguments: StatementArguments(arguments)) }
    }

    func rows(_ sql: String, _ arguments: [DatabaseValue]) async throws -> [Row] {
        try queue.read { db in try Row.fetchAll(db, sql: sql, arguments: StatementArguments(arguments)) }
    }

    func payload(_ body: String) -> DatabaseValue { body.databaseValue }

    func version() async throws -> Int? {
        try await queue.unsafeRead { db in try Int.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) }
    }

    func close() throws { try queue.close() }
}

/// A row of `grant_queue` with a code for siwatch to exchange.
package struct CodeRow: Sendable {
    package var clientID: String
    package var code: String
    package var userID: String?
    package var redirectURI: String?
    package var nonce: String?
    /// The sign-in's time; the time of the insert, if absent.
    package var grantedAt: Moment?

    package init(
        clientID: String,
        code: String,
        userID: String? = nil,
        redirectURI: String? = nil,
        nonce: String? = nil,
        grantedAt: Moment? = nil
    ) {
        self.clientID = clientID
        self.code = code
        self.userID = userID
        self.redirectURI = redirectURI
        self.nonce = nonce
        self.grantedAt = grantedAt
    }

    /// The app's knowledge after a sign-in by code, or `nil` for a sign-in without a code.
    package init?(_ signIn: SignIn) {
        guard let code = signIn.code else { return nil }
        self.init(
            clientID: signIn.clientID,
            code: code,
            userID: signIn.userID,
            redirectURI: signIn.redirectURI,
            nonce: signIn.nonce,
            grantedAt: signIn.grantedAt
        )
    }
}
