// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import DaemonHarness
import Synchronization

@testable import PostgresStore

/// Schemas on the one server of this process: each test has its own.
enum PostgresUnderTest {
    private static let schemas = Atomic(0)

    /// Of a schema that is not there yet.
    static func address(user: String = PostgresServer.user) throws -> PostgresAddress {
        PostgresAddress(
            try PostgresServer.shared.get().address(user: user),
            schema: "test_\(schemas.wrappingAdd(1, ordering: .relaxed).newValue)"
        )
    }

    /// The same schema, as somebody else.
    static func address(_ address: PostgresAddress, as user: String) throws -> PostgresAddress {
        PostgresAddress(try PostgresServer.shared.get().address(user: user), schema: address.schema)
    }

    /// The same schema by a road that can be cut.
    static func road(to address: PostgresAddress) throws -> (road: RoadToServer, address: PostgresAddress) {
        let road = try RoadToServer(PostgresServer.shared.get().folder)
        return (road, PostgresAddress(road.address, schema: address.schema))
    }

    static func store(_ store: PostgresStore) throws -> StoreUnderTest {
        try StoreUnderTest(
            ports: store,
            door: PostgresDoor(store.address),
            register: { name, clientIDs in try store.register([AppClients(name: name, clientIDs: clientIDs)]) },
            // Other replicas are at work on the same rows: what one has claimed is void once its lease has ended.
            restart: { now in now + StoreUnderTest.policy.lease(attempts: 2) },
            tearDown: {}
        )
    }
}
