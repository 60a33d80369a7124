// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// The clients of an app group, as configured.
package struct AppClients: Sendable, Equatable {
    package var name: String
    package var clientIDs: [String]

    package init(name: String, clientIDs: [String]) {
        self.name = name
        self.clientIDs = clientIDs
    }
}

/// Which client belongs to which app, by the small numbers that the tables hold in their place.
struct ClientDirectory: Sendable {
    struct Client: Sendable {
        var id: Int64
        var clientID: String
        var app: App
    }

    struct App: Sendable, Hashable {
        var id: Int64
        var name: String
    }

    private(set) var apps: [String: App] = [:]
    private(set) var clients: [String: Client] = [:]
    private(set) var clientsByID: [Int64: Client] = [:]
    /// The app of each client, by name.
    private(set) var appNames: [String: String] = [:]
    /// Those that the configuration names; the others have been taken out of it.
    private(set) var configured: Set<Int64> = []

    /// The clients of an app that the configuration names, by number.
    func watchedClients(of app: Int64) -> [Int64] {
        clientsByID.values.filter { $0.app.id == app && isWatched($0) }.map(\.id).sorted()
    }

    /// Whether the configuration names it; all are, where none has been taken in.
    func isWatched(_ client: Client) -> Bool { configured.isEmpty || configured.contains(client.id) }

    init() {}

    init(_ db: Database) throws {
        var appsByID: [Int64: App] = [:]
        for row in try Row.fetchAll(db.cachedStatement(sql: "SELECT id, name FROM app")) {
            let app = App(id: row[0], name: row[1])
            appsByID[app.id] = app
            apps[app.name] = app
        }
        for row in try Row.fetchAll(db.cachedStatement(sql: "SELECT id, client_id, app FROM client")) {
            guard let app = appsByID[row[2]] else { continue }
            let client = Client(id: row[0], clientID: row[1], app: app)
            clients[client.clientID] = client
            clientsByID[client.id] = client
            appNames[client.clientID] = app.name
        }
    }

    /// - Throws: `StoreOpenError` where a client stands under another app in the database: its users' history would change hands.
    func check(_ configured: [AppClients]) throws(StoreOpenError) {
        for app in configured {
            for clientID in app.clientIDs {
                if let known = clients[clientID]?.app.name, known != app.name {
                    throw StoreOpenError(
                        """
                        the client \(clientID) belongs to the app "\(known)" in the database and to "\(app.name)" in the configuration; \
                        if the app was renamed, run: siwatch app rename \(known) \(app.name)
                        """
                    )
                }
            }
        }
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
        // Grants that waited for one of them wait no longer.
        try db.execute(
            cached: """
                UPDATE grant_queue SET due_at = 0
                 WHERE due_at > 0 AND claimed_by IS NULL AND client_id IN (SELECT client_id FROM client)
                """
        )
        let others = self.configured.filter { id in !configured.contains { $0.name == clientsByID[id]?.app.name } }
        self = try ClientDirectory(db)
        self.configured = others.union(configured.flatMap(\.clientIDs).compactMap { clients[$0]?.id })
    }
}
