// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The app of each client, and the small numbers that the tables hold in place of names.
package struct ClientDirectory: Sendable {
    package struct Client: Sendable {
        package var id: Int64
        package var clientID: String
        package var app: App
    }

    package struct App: Sendable, Hashable {
        package var id: Int64
        package var name: String
    }

    package private(set) var apps: [String: App] = [:]
    package private(set) var clients: [String: Client] = [:]
    package private(set) var clientsByID: [Int64: Client] = [:]
    package private(set) var appNames: [String: String] = [:]
    /// The clients that the configuration names. The other clients have been taken out of it.
    private var configured: Set<Int64> = []

    package init() {}

    package init(apps rows: [(id: Int64, name: String)], clients: [(id: Int64, clientID: String, app: Int64)]) {
        var appsByID: [Int64: App] = [:]
        for row in rows {
            let app = App(id: row.id, name: row.name)
            appsByID[app.id] = app
            apps[app.name] = app
        }
        for row in clients {
            guard let app = appsByID[row.app] else { continue }
            let client = Client(id: row.id, clientID: row.clientID, app: app)
            self.clients[client.clientID] = client
            clientsByID[client.id] = client
            appNames[client.clientID] = app.name
        }
    }

    /// The app of a name. An unknown one stops the process, because the settlement would take a row from its queue and write no state.
    package func app(_ name: String) -> App {
        guard let app = apps[name] else { preconditionFailure("the app \(name) is not in the directory of its settlement") }
        return app
    }

    /// Likewise the client of an id.
    package func client(_ clientID: String) -> Client {
        guard let client = clients[clientID] else {
            preconditionFailure("the client \(clientID) is not in the directory of its settlement")
        }
        return client
    }

    /// The names of the apps, in the order of their numbers, one a line.
    package var names: String { apps.values.sorted { $0.id < $1.id }.map(\.name).joined(separator: "\n") }

    package var newestClient: Int64 { clientsByID.keys.max() ?? 0 }

    /// The clients of an app that the configuration names, by number.
    package func watchedClients(of app: Int64) -> [Int64] {
        clientsByID.values.filter { $0.app.id == app && isWatched($0) }.map(\.id).sorted()
    }

    package func clients(of app: Int64) -> [Client] {
        clientsByID.values.filter { $0.app.id == app }.sorted { $0.id < $1.id }
    }

    package func numbered(_ quotas: [String: Int]) -> [Int64: Int] {
        quotas.reduce(into: [:]) { numbered, quota in
            if let client = clients[quota.key] { numbered[client.id] = quota.value }
        }
    }

    /// Whether the configuration names the client. Until a configuration is taken in, every client counts.
    package func isWatched(_ client: Client) -> Bool { configured.isEmpty || configured.contains(client.id) }

    /// - Throws: `StoreOpenError` if the database has a client under another app, because its users' history would move.
    package func check(_ configured: [AppClients]) throws(StoreOpenError) {
        for app in configured {
            for clientID in app.clientIDs {
                if let known = clients[clientID]?.app.name, known != app.name {
                    throw StoreOpenError(
                        """
                        the client \(clientID) belongs to the app "\(known)" in the database and to "\(app.name)" in the configuration; \
                        if the app was renamed, run: siwatch rename app \(known) \(app.name); \
                        else leave the client there, because no client moves to another app
                        """
                    )
                }
            }
        }
    }

    /// Takes what the tables hold after configured apps were stored, and notes which clients the configuration names.
    package mutating func take(_ configured: [AppClients], as stored: ClientDirectory) {
        let others = self.configured.filter { id in !configured.contains { $0.name == clientsByID[id]?.app.name } }
        self = stored
        self.configured = others.union(configured.flatMap(\.clientIDs).compactMap { clients[$0]?.id })
    }
}
