// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Synchronization

/// A schema of its own on a PostgreSQL server.
package struct ServerSchema: Sendable {
    package let server: PostgresServer
    package let database: String
    package let name: String

    private static let count = Atomic(0)

    /// Chooses the name of a schema that does not exist yet.
    ///
    /// - Parameter server: nil for the shared server.
    package init(on server: PostgresServer? = nil) throws {
        self.server = try server ?? PostgresServer.shared.get()
        database = PostgresServer.database
        name = "site_\(Self.count.wrappingAdd(1, ordering: .relaxed).newValue)"
    }

    package init(on server: PostgresServer, database: String, name: String) {
        (self.server, self.database, self.name) = (server, database, name)
    }

    /// A URL for a configuration.
    package var url: String { server.url(database: database) }
    /// A connection string of libpq.
    package var address: String { server.address(database: database) }
}

/// The kind of database of a site.
package enum SiteDatabase: Sendable, CaseIterable, Equatable {
    /// SQLite, in the site's folder.
    case file
    /// A schema of PostgreSQL, on the shared server by default.
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
