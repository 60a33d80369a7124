// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Which client belongs to which app, by the small numbers that the tables hold in their place.
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
    /// The app of each client, by name.
    package private(set) var appNames: [String: String] = [:]
    /// Those that the configuration names; the others have been taken out of it.
    private var configured: Set<Int64> = []

    package init() {}

    /// - Parameters: the rows of `app`, and those of `client`.
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

    /// The app of a name that this directory gave out. A settlement that went on without it would take a row from its queue and write no
    /// state.
    package func app(_ name: String) -> App {
        guard let app = apps[name] else { preconditionFailure("the app \(name) is not in the directory of its settlement") }
        return app
    }

    /// The client of an id that this directory gave out.
    package func client(_ clientID: String) -> Client {
        guard let client = clients[clientID] else {
            preconditionFailure("the client \(clientID) is not in the directory of its settlement")
        }
        return client
    }

    /// The names of the apps, in the order of their numbers, a line for each.
    package var names: String { apps.values.sorted { $0.id < $1.id }.map(\.name).joined(separator: "\n") }

    /// The greatest number of a client; 0 where there is none.
    package var newestClient: Int64 { clientsByID.keys.max() ?? 0 }

    /// The clients of an app that the configuration names, by number.
    package func watchedClients(of app: Int64) -> [Int64] {
        clientsByID.values.filter { $0.app.id == app && isWatched($0) }.map(\.id).sorted()
    }

    /// All clients of an app, by number.
    package func clients(of app: Int64) -> [Client] {
        clientsByID.values.filter { $0.app.id == app }.sorted { $0.id < $1.id }
    }

    /// The same limits by the numbers of the clients.
    package func numbered(_ quotas: [String: Int]) -> [Int64: Int] {
        quotas.reduce(into: [:]) { numbered, quota in
            if let client = clients[quota.key] { numbered[client.id] = quota.value }
        }
    }

    /// Whether the configuration names it; all are, where none has been taken in.
    package func isWatched(_ client: Client) -> Bool { configured.isEmpty || configured.contains(client.id) }

    /// - Throws: `StoreOpenError` where a client stands under another app in the database: its users' history would change hands.
    package func check(_ configured: [AppClients]) throws(StoreOpenError) {
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

    /// What the tables hold once configured apps were taken in, and which clients the configuration names by then.
    package mutating func take(_ configured: [AppClients], as stored: ClientDirectory) {
        let others = self.configured.filter { id in !configured.contains { $0.name == clientsByID[id]?.app.name } }
        self = stored
        self.configured = others.union(configured.flatMap(\.clientIDs).compactMap { clients[$0]?.id })
    }
}
