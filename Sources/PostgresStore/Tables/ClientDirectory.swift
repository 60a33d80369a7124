// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension ClientDirectory {
    init(_ connection: Connection) throws {
        let apps = try connection.send("SELECT id, name FROM app")
        let clients = try connection.send("SELECT id, client_id, app FROM client")
        self.init(
            apps: try connection.rows(of: apps).map { ($0.integer(at: 0), $0.text(at: 1) ?? "") },
            clients: try connection.rows(of: clients).map { ($0.integer(at: 0), $0.text(at: 1) ?? "", $0.integer(at: 2)) }
        )
    }

    /// Grants that waited for a client wait no longer once it is known. A portion of them, by their ids. A grant with an attempt has come
    /// with a move, and was claimed by a process that died. It is due before them.
    ///
    /// - Returns: where the next portion begins; nil where none is left.
    static func releaseGrants(after id: Int64, on connection: Connection) throws -> Int64? {
        try connection.rows(
            """
            WITH portion AS MATERIALIZED (
              SELECT id FROM grant_queue
               WHERE id > $1 AND due_at > 0 AND claimed_by IS NULL AND attempts = 0 AND client_id IN (SELECT client_id FROM client)
               ORDER BY id LIMIT 10000 FOR UPDATE SKIP LOCKED),
            released AS (UPDATE grant_queue SET due_at = 0 WHERE id = ANY (ARRAY(SELECT id FROM portion)))
            SELECT MAX(id) FROM portion
            """,
            id
        ).first.flatMap { $0.isNull(at: 0) ? nil : $0.integer(at: 0) }
    }

    /// Takes configured apps in, if the check finds nothing.
    mutating func register(_ configured: [AppClients], on connection: Connection) throws {
        try connection.lockTail()
        // As it is now: another replica may have taken some in.
        try ClientDirectory(connection).check(configured)
        for app in configured {
            try connection.send("INSERT INTO app (name) VALUES ($1) ON CONFLICT DO NOTHING", app.name)
            // One that has judged nothing yet can be locked all the same.
            try connection.send("INSERT INTO breaker (app) SELECT id FROM app WHERE name = $1 ON CONFLICT DO NOTHING", app.name)
            for clientID in app.clientIDs {
                try connection.send(
                    "INSERT INTO client (client_id, app) SELECT $1, id FROM app WHERE name = $2 ON CONFLICT DO NOTHING",
                    clientID,
                    app.name
                )
            }
        }
        take(configured, as: try ClientDirectory(connection))
    }
}
