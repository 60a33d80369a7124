// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

extension ClientDirectory {
    init(_ db: Database) throws {
        let apps = try Row.fetchAll(db.cachedStatement(sql: "SELECT id, name FROM app"))
        let clients = try Row.fetchAll(db.cachedStatement(sql: "SELECT id, client_id, app FROM client"))
        self.init(apps: apps.map { ($0[0], $0[1]) }, clients: clients.map { ($0[0], $0[1], $0[2]) })
    }

    /// Takes configured apps in, if the check finds nothing.
    mutating func register(_ configured: [AppClients], in db: Database) throws {
        try check(configured)
        for app in configured {
            try db.execute(cached: "INSERT INTO app (name) VALUES (?) ON CONFLICT DO NOTHING", [app.name])
            for clientID in app.clientIDs {
                try db.execute(
                    cached: "INSERT INTO client (client_id, app) SELECT ?, id FROM app WHERE name = ? ON CONFLICT DO NOTHING",
                    [clientID, app.name]
                )
            }
        }
        // Grants that waited for one of them wait no longer. A grant with an attempt was claimed by a process that died. It is due before
        // them.
        try db.execute(
            cached: """
                UPDATE grant_queue SET due_at = 0
                 WHERE due_at > 0 AND claimed_by IS NULL AND attempts = 0 AND client_id IN (SELECT client_id FROM client)
                """
        )
        take(configured, as: try ClientDirectory(db))
    }
}
