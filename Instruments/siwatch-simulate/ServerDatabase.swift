// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
package import CredentialTesting
import DaemonHarness
import GRDB
import NIOConcurrencyHelpers
import PostgresStore

/// A PostgreSQL schema for one simulation after another, because making a schema takes longer than most seeds.
final class ServerDatabase: SimulatedDatabase {
    private static let idle = NIOLockedValueBox<[ServerDatabase]>([])

    private let schema: ServerSchema
    private let backend: BackendServer
    private let shelf = NIOLockedValueBox<ServerSchema?>(nil)

    private init() throws {
        schema = try Self.makeSchema()
        backend = try BackendServer(schema.server.address(), schema: schema.name)
    }

    static func take() throws -> any SimulatedDatabase { try idle.withLockedValue { $0.popLast() } ?? ServerDatabase() }

    private static func makeSchema() throws -> ServerSchema {
        let schema = try ServerSchema()
        _ = try PostgresStore.open(address(of: schema))
        return schema
    }

    private static func address(of schema: ServerSchema) -> PostgresAddress {
        PostgresAddress(schema.server.address(), schema: schema.name)
    }

    /// Other processes may be at work.
    let voidsClaims = false

    func open() throws -> any CredentialStore { try PostgresStore.open(Self.address(of: schema)) }

    func rows(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Row] {
        try backend.run(sql, arguments.map { $0?.databaseValue ?? .null }, isOne: true)
    }

    /// The whole server's version, because other processes write too.
    var version: Int { get throws { try backend.run("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint", isOne: true)[0][0] } }

    func backUp() throws {
        let shelf = try shelf.withLockedValue { $0 } ?? Self.makeSchema()
        self.shelf.withLockedValue { $0 = shelf }
        try copy(from: schema, to: shelf)
    }

    func restore() throws {
        guard let shelf = shelf.withLockedValue({ $0 }) else { preconditionFailure("There is no copy.") }
        try copy(from: shelf, to: schema)
    }

    func release() throws {
        try backend.run(Self.empty(schema))
        Self.idle.withLockedValue { $0.append(self) }
    }

    /// All tables. A table comes after the tables that it refers to.
    private static func tables(of schema: ServerSchema) -> String {
        """
        SELECT c.relname FROM pg_class c
         WHERE c.relnamespace = '\(schema.name)'::regnamespace AND c.relkind = 'r' AND c.relname <> 'schema_version' ORDER BY c.oid
        """
    }

    private static func empty(_ schema: ServerSchema) -> String {
        """
        DO $$
        BEGIN
          EXECUTE (SELECT 'TRUNCATE ' || string_agg(format('\(schema.name).%I', relname), ', ') || ' RESTART IDENTITY'
                     FROM (\(tables(of: schema))) t);
        END
        $$
        """
    }

    private func copy(from source: ServerSchema, to target: ServerSchema) throws {
        try backend.run(
            """
            \(Self.empty(target));
            DO $$
            DECLARE t TEXT; s RECORD;
            BEGIN
              FOR t IN \(Self.tables(of: source)) LOOP
                EXECUTE format('INSERT INTO \(target.name).%1$I OVERRIDING SYSTEM VALUE SELECT * FROM \(source.name).%1$I', t);
              END LOOP;
              FOR s IN SELECT * FROM pg_sequences WHERE schemaname = '\(source.name)' LOOP
                PERFORM setval(format('\(target.name).%I', s.sequencename), COALESCE(s.last_value, s.start_value), s.last_value IS NOT NULL);
              END LOOP;
            END
            $$
            """
        )
    }
}

extension SimulatedDatabases {
    /// Schemas of a PostgreSQL server that this process starts.
    package static let postgres = SimulatedDatabases(option: " STORE=postgres", take: ServerDatabase.take)
}
