// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Synchronization

/// A schema of its own on a server of PostgreSQL.
package struct ServerSchema: Sendable {
    package let server: PostgresServer
    package let database: String
    package let name: String

    private static let count = Atomic(0)

    /// One that is not there yet.
    ///
    /// - Parameter server: nil for the one that all share.
    package init(on server: PostgresServer? = nil) throws {
        self.server = try server ?? PostgresServer.shared.get()
        database = PostgresServer.database
        name = "site_\(Self.count.wrappingAdd(1, ordering: .relaxed).newValue)"
    }

    package init(on server: PostgresServer, database: String, name: String) {
        (self.server, self.database, self.name) = (server, database, name)
    }

    /// As a configuration takes it.
    package var url: String { server.url(database: database) }
    /// As libpq reads it.
    package var address: String { server.address(database: database) }
}

/// Where a site keeps its database.
package enum SiteDatabase: Sendable, CaseIterable, Equatable {
    /// SQLite, in the site's folder.
    case file
    /// A schema of PostgreSQL: on the server that all share, unless another is named.
    case server(PostgresServer? = nil)

    package static let server = SiteDatabase.server()
    package static let allCases: [SiteDatabase] = [.file, .server]

    package static func == (one: SiteDatabase, other: SiteDatabase) -> Bool {
        switch (one, other) {
        case (.file, .file): true
        case (.server(let one), .server(let other)): one === other
        case (.file, .server), (.server, .file): false
        }
    }
}
