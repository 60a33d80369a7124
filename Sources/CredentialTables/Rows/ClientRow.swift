// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The rows of `app` and `client`.
extension ClientDirectory {
    package init(_ connection: some TableConnection) throws {
        self.init(
            apps: try connection.fetchAll("SELECT id, name FROM app").map { ($0.integer(at: 0), $0.text(at: 1) ?? "") },
            clients: try connection.fetchAll("SELECT id, client_id, app FROM client").map {
                ($0.integer(at: 0), $0.text(at: 1) ?? "", $0.integer(at: 2))
            }
        )
    }

    /// Registers the configured apps.
    ///
    /// - Throws: `StoreOpenError` if a client would move to another app.
    package mutating func register(_ configured: [AppClients], on connection: some TableConnection) throws {
        try connection.lockSettlements()
        // Reads the tables anew, because another replica may have registered some clients.
        try ClientDirectory(connection).check(configured)
        for app in configured {
            try connection.execute("INSERT INTO app (name) VALUES (\(app.name)) ON CONFLICT DO NOTHING")
            try BreakerRow.makeLockable(app.name, on: connection)
            for clientID in app.clientIDs {
                try connection.execute(
                    "INSERT INTO client (client_id, app) SELECT \(clientID), id FROM app WHERE name = \(app.name) ON CONFLICT DO NOTHING"
                )
            }
        }
        take(configured, as: try ClientDirectory(connection))
    }
}

extension ClientRecord {
    /// - Parameter row: `valid_at, refused_since, refused_at, refusal`, from the given index on.
    init(_ row: some TableRow, from start: Int) {
        self.init(validAt: row.time(at: start), refusal: ClientRefusal(row, from: start + 1))
    }
}

extension ClientRefusal {
    /// - Parameter row: `refused_since, refused_at, refusal`, from the given index on.
    init?(_ row: some TableRow, from start: Int) {
        guard let since = row.time(at: start), let at = row.time(at: start + 1) else { return nil }
        self.init(since: since, at: at, word: row.text(at: start + 2) ?? "")
    }

    /// The refusal of each client that Apple refuses.
    static func all(on connection: some TableConnection) throws -> [String: ClientRefusal] {
        let rows = try connection.fetchAll("SELECT client_id, refused_since, refused_at, refusal FROM client WHERE refused_at IS NOT NULL")
        return rows.reduce(into: [:]) { $0[$1.text(at: 0) ?? ""] = ClientRefusal($1, from: 1) }
    }
}
