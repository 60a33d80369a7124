// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension ClientDirectory {
    package init(_ connection: some TableConnection) throws {
        self.init(
            apps: try connection.fetchAll("SELECT id, name FROM app").map { ($0[0], $0[1]) },
            clients: try connection.fetchAll("SELECT id, client_id, app FROM client").map { ($0[0], $0[1], $0[2]) }
        )
    }

    /// - Throws: `StoreOpenError` if a client would move to another app.
    package mutating func register(_ configured: [AppClients], on connection: some TableConnection) throws {
        try connection.lockSettlements()
        // Reads the tables anew, because another replica may have registered some clients.
        try ClientDirectory(connection).check(configured)
        for app in configured {
            try connection.execute("INSERT INTO app (name) VALUES (\(app.name)) ON CONFLICT DO NOTHING")
            // PostgreSQL needs a row to lock.
            if connection.dialect == .postgres {
                try connection.execute("INSERT INTO breaker (app) SELECT id FROM app WHERE name = \(app.name) ON CONFLICT DO NOTHING")
            }
            for clientID in app.clientIDs {
                try connection.execute(
                    "INSERT INTO client (client_id, app) SELECT \(clientID), id FROM app WHERE name = \(app.name) ON CONFLICT DO NOTHING"
                )
            }
        }
        take(configured, as: try ClientDirectory(connection))
    }
}

extension ClientRefusal {
    init?(_ row: some TableRow, from start: Int) {
        guard let since = row.time(at: start), let at = row.time(at: start + 1) else { return nil }
        self.init(since: since, at: at, word: row[start + 2])
    }

    static func all(on connection: some TableConnection) throws -> [String: ClientRefusal] {
        let rows = try connection.fetchAll("SELECT client_id, refused_since, refused_at, refusal FROM client WHERE refused_at IS NOT NULL")
        return rows.reduce(into: [:]) { $0[$1[0]] = ClientRefusal($1, from: 1) }
    }
}

/// The state of an app's breaker in `breaker`, as JSON. It is NULL if the breaker has judged nothing yet.
enum BreakerRow {
    static func read(_ state: String?) -> RejectionBreaker? { state.map { JSONText.decode($0) ?? .unread } }

    static func load(_ app: Int64, _ lock: SQL = "", on connection: some TableConnection) throws -> RejectionBreaker? {
        read(try connection.fetchOne("SELECT state FROM breaker WHERE app = \(app) \(lock)")?.text(at: 0))
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
        let stored = try load(app, connection.dialect.forUpdate, on: connection) ?? RejectionBreaker()
        var breaker = stored.breaker(at: now)
        let result = try body(&breaker)
        if stored != breaker { try save(breaker, of: app, on: connection) }
        return result
    }

    static func countPending(of app: Int64, on connection: some TableConnection) throws {
        try connection.execute(
            "UPDATE app SET pending = (SELECT COUNT(*) FROM credential WHERE app = \(app) AND pending_since IS NOT NULL) WHERE id = \(app)"
        )
    }
}

/// An app's revocation limit, in columns of `app`.
enum RevocationLimitRow {
    static func load(_ app: Int64, on connection: some TableConnection) throws -> RevocationLimit? {
        try connection.fetchOne(
            """
            SELECT revocation_hour_at, revocations_opened, revocations_held_at, revocations_held,
                   COALESCE((SELECT count FROM credential_count WHERE app = \(app) AND state = 'authorized'), 0)
              FROM app WHERE id = \(app)
            """
        ).map { row in
            let (opened, held, authorized) = (row.count(at: 1), row.count(at: 3), row.count(at: 4))
            return RevocationLimit(hourBeganAt: row[0], opened: opened, reachedAt: row[2], held: held, authorized: authorized)
        }
    }

    static func save(_ limit: RevocationLimit, of app: Int64, on connection: some TableConnection) throws {
        try connection.execute(
            """
            UPDATE app SET revocation_hour_at = \(limit.hourBeganAt.columnValue), revocations_opened = \(limit.opened),
                           revocations_held_at = \(limit.reachedAt.columnValue), revocations_held = \(limit.held) WHERE id = \(app)
            """
        )
    }
}
