// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Synchronization

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

    package var url: String { server.url(database: database) }
    package var address: String { server.address(database: database) }
}

package enum SiteDatabase: Sendable, CaseIterable, Equatable {
    case file
    case server(PostgresServer? = nil)

    package static let server = SiteDatabase.server()
    package static let allCases: [SiteDatabase] = [.file, .server]
}
