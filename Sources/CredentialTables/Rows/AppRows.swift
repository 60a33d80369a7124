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
struct BreakerRow<Connection: TableConnection> {
    let connection: Connection
    let decisions: DecisionBook

    private typealias Stored = (app: Int64, state: String?, proof: [UInt8])

    /// Reads and locks breakers, and puts right those that somebody else wrote.
    func load(_ apps: [Int64]) throws -> [Int64: RejectionBreaker] {
        try judge(connection.ask(.breakers, apps.map { bound($0) }), of: apps)
    }

    /// - Parameter answer: of `RowStatement.breakers`, for these apps.
    func judge(_ answer: Connection.Answer?, of apps: [Int64]) throws -> [Int64: RejectionBreaker] {
        let found: [Stored] = try connection.read(answer) { ($0.integer(at: 0), $0.text(at: 1), $0.bytes(at: 2)) }
        let missing = apps.filter { app in !found.contains { $0.app == app } }
        let rows = found + missing.map { app -> Stored in (app, nil, []) }
        return try rows.reduce(into: [:]) { breakers, row in
            let (decision, place) = (Decision.breaker(app: row.app, state: row.state), DecisionRow(.breaker, row.app))
            guard case .instead(let known) = decisions.belief(in: decision, by: row.proof, of: place, isInitial: row.state == nil) else {
                breakers[row.app] = RejectionBreaker(row: row.state)
                return
            }
            // An open breaker believes no rejection, so it may stay open although somebody else opened it.
            var breaker = RejectionBreaker(row: row.state)?.opened ?? .unread
            if case .breaker(_, let state) = known { breaker = RejectionBreaker(row: state) ?? RejectionBreaker() }
            breakers[row.app] = breaker
            try save(breaker, of: row.app)
        }
    }

    func save(_ breaker: RejectionBreaker, of app: Int64) throws {
        let state = try JSONText.encode(breaker)
        let proof = decisions.write(.breaker(app: app, state: state), in: DecisionRow(.breaker, app))
        try connection.execute(
            """
            INSERT INTO breaker (app, state, proof) VALUES (\(app), \(state), \(proof.columnValue))
                ON CONFLICT (app) DO UPDATE SET state = excluded.state, proof = excluded.proof
            """
        )
    }

    /// Changes a breaker outside of a settlement.
    func change<Result>(_ app: Int64, at now: Timestamp, _ body: (inout RejectionBreaker) throws -> Result) throws -> Result {
        let stored = try load([app])[app] ?? RejectionBreaker()
        var breaker = stored.breaker(at: now)
        let result = try body(&breaker)
        if stored != breaker { try save(breaker, of: app) }
        return result
    }

    func countPending(of app: Int64) throws {
        try connection.execute(
            "UPDATE app SET pending = (SELECT COUNT(*) FROM credential WHERE app = \(app) AND pending_since IS NOT NULL) WHERE id = \(app)"
        )
    }
}

extension RejectionBreaker {
    /// - Parameter row: the state in a row. Nil if the breaker has judged nothing yet.
    init?(row: String?) {
        guard let row else { return nil }
        self = JSONText.decode(row) ?? .unread
    }

    /// Nil if it is closed, or an operator has confirmed its rejections.
    fileprivate var opened: RejectionBreaker? { isOpen && confirmedAt == nil && mutedUntil == nil ? self : nil }
}

extension RowStatement {
    static let breakers = read("app, state, proof", of: "breaker", key: ["app"], lockedBy: "app")
}

/// An app's revocation limit, in columns of `app`.
struct RevocationLimitRow<Connection: TableConnection> {
    let connection: Connection
    let decisions: DecisionBook

    /// Reads a limit, and puts it right if somebody else wrote it.
    func loadRight(_ app: Int64, at now: Timestamp) throws -> RevocationLimit {
        let (limit, isPlanted) = try load(app, at: now)
        if isPlanted { try save(limit, of: app) }
        return limit
    }

    /// - Parameter most: how many requests the transaction opens at most. The authorized credentials count only beyond `rules.maxPerHour`,
    ///   so nobody has to count them for fewer.
    /// - Returns: the limit that counts, and whether somebody else wrote the row.
    func load(_ app: Int64, opening most: Int = 0, under rules: RevocationLimitRules? = nil, at now: Timestamp) throws
        -> (limit: RevocationLimit, isPlanted: Bool)
    {
        let row = try connection.fetchOne(
            """
            SELECT revocation_hour_at, revocations_opened, revocations_held_at, revocations_held, revocations_proof
              FROM app WHERE id = \(app)
            """
        )
        // Somebody may have removed the row, so that nothing would be counted.
        let stored = row.map { RevocationLimit(hourBeganAt: $0[0], opened: $0.count(at: 1), reachedAt: $0[2], held: $0.count(at: 3)) }
        var limit = stored ?? RevocationLimit()
        let (decision, place) = (Decision.limit(app: app, limit), DecisionRow(.limit, app))
        let isInitial = stored == RevocationLimit()
        var isPlanted = false
        if case .instead(let known) = decisions.belief(in: decision, by: row?.bytes(at: 4) ?? [], of: place, isInitial: isInitial) {
            // A process that does not know how many requests were opened lets none through.
            if case .limit(_, let known) = known {
                limit = known
            } else {
                limit.reachedAt = limit.reachedAt ?? now
                limit.held = try countHeld(app)
            }
            isPlanted = true
        }
        if let rules, limit.opened + most > rules.maxPerHour { limit.authorized = try authorized(app) }
        return (limit, isPlanted)
    }

    private func countHeld(_ app: Int64) throws -> Int {
        try connection.count(
            """
            SELECT 1 FROM revocation_queue
             WHERE held_at IS NOT NULL AND client_id IN (SELECT client_id FROM client WHERE app = \(app))
            """
        )
    }

    private func authorized(_ app: Int64) throws -> Int {
        let isAuthorized: SQL = "app = \(app) AND state = 'authorized'"
        let kept = try connection.fetchInt("SELECT count FROM credential_count WHERE \(isAuthorized)")
        let (believed, right) = decisions.authorized(of: app, kept: kept)
        if right != kept { try connection.execute("UPDATE credential_count SET count = \(right) WHERE \(isAuthorized)") }
        return believed
    }

    func save(_ limit: RevocationLimit, of app: Int64) throws {
        var counted = limit
        counted.authorized = 0
        let proof = decisions.write(.limit(app: app, counted), in: DecisionRow(.limit, app))
        try connection.execute(
            """
            UPDATE app SET revocation_hour_at = \(limit.hourBeganAt.columnValue), revocations_opened = \(limit.opened),
                           revocations_held_at = \(limit.reachedAt.columnValue), revocations_held = \(limit.held),
                           revocations_proof = \(proof.columnValue)
             WHERE id = \(app)
            """
        )
    }
}

/// Since when an app is paused, in a column of `app`.
struct PauseRow<Connection: TableConnection> {
    let connection: Connection
    let decisions: DecisionBook

    /// Whether siwatch seems to have written all pauses. A reader may be behind what the process knows.
    func seemOurs(_ apps: [Int64]) throws -> Bool {
        try all(apps).allSatisfy { row in
            decisions.seemsOurs(.pause(app: row.app, since: row.since), by: row.proof, in: row.place, isInitial: row.since == nil)
        }
    }

    /// Puts right what somebody else wrote. Claims read the column, which counts until then.
    func restore(_ apps: [Int64]) throws {
        for row in try all(apps) {
            let decision = Decision.pause(app: row.app, since: row.since)
            let belief = decisions.belief(in: decision, by: row.proof, of: row.place, isInitial: row.since == nil)
            guard case .instead(let known) = belief else { continue }
            if case .pause(_, let since) = known { try save(since, of: row.app) } else { try save(nil, of: row.app) }
        }
    }

    /// - Parameter apps: not those that somebody else has made.
    private func all(_ apps: [Int64]) throws -> [(app: Int64, since: Timestamp?, proof: [UInt8], place: DecisionRow)] {
        let isKnown = try connection.dialect.isOne("id", of: apps)
        return try connection.fetchAll("SELECT id, paused_at, substr(paused_proof, 1, 64) FROM app WHERE \(isKnown) ORDER BY id").map {
            ($0.integer(at: 0), $0.time(at: 1), $0.bytes(at: 2), DecisionRow(.pause, $0.integer(at: 0)))
        }
    }

    func save(_ since: Timestamp?, of app: Int64) throws {
        let proof = decisions.write(.pause(app: app, since: since), in: DecisionRow(.pause, app))
        try connection.lockSettlements()
        try connection.execute(
            "UPDATE app SET paused_at = \(since.columnValue), paused_proof = \(proof.columnValue) WHERE id = \(app)"
        )
    }
}
