// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import DaemonHarness
import Synchronization

@testable import PostgresStore

/// Schemas on the process's one server. Each test has its own.
enum PostgresUnderTest {
    private static let schemas = Atomic(0)

    /// The address of a schema that does not exist yet.
    static func address(user: String = PostgresServer.user) throws -> PostgresAddress {
        PostgresAddress(
            try PostgresServer.shared.get().address(user: user),
            schema: "test_\(schemas.wrappingAdd(1, ordering: .relaxed).newValue)"
        )
    }

    /// The same schema, as another user.
    static func address(_ address: PostgresAddress, as user: String) throws -> PostgresAddress {
        PostgresAddress(try PostgresServer.shared.get().address(user: user), schema: address.schema)
    }

    /// The same schema by a road that a test can cut.
    static func road(to address: PostgresAddress) throws -> (road: RoadToServer, address: PostgresAddress) {
        let road = try RoadToServer(PostgresServer.shared.get().folder)
        return (road, PostgresAddress(road.address, schema: address.schema))
    }

    static func store(_ store: PostgresStore) throws -> StoreUnderTest {
        try StoreUnderTest(
            ports: store,
            door: PostgresDoor(store.address),
            register: { name, clientIDs in try store.register([AppClients(name: name, clientIDs: clientIDs)]) },
            // Other replicas work on the same rows, so a claim is void only after its lease.
            restart: { now in now + StoreUnderTest.policy.lease(attempts: 2) },
            tearDown: {}
        )
    }
}

extension Connection {
    /// Runs a statement without values.
    func run(_ sql: String) throws { try change("\(sql: sql)") }
}
