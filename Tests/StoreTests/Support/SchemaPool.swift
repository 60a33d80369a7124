// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import GRDB
import NIOConcurrencyHelpers
import Testing

@testable import PostgresStore

/// Schemas that one test leaves to the next, because to make one takes ten times as long as to empty it.
///
/// A schema that differs from a new one in more than its rows is left to nobody.
enum SchemaPool {
    /// The schemas of the running test; nil in a suite without the trait `.eachStore`.
    @TaskLocal static var taken: NIOLockedValueBox<[String]>?

    private static let idle = NIOLockedValueBox<[String]>([])
    private static let administrator = Result { try BackendServer(PostgresServer.shared.get().address(), schema: "public") }
    private static let pristine = Result {
        let address = try PostgresUnderTest.address()
        _ = try PostgresStore.open(address)
        return try look(of: address.schema)
    }

    /// The address of a schema without rows, which may not exist yet.
    static func take() throws -> PostgresAddress {
        guard let taken else { return try PostgresUnderTest.address() }
        var address = try PostgresUnderTest.address()
        while let name = idle.withLockedValue({ $0.popLast() }) {
            // A connection that is still at work there locks its tables.
            guard (try? empty(name)) != nil, try look(of: name) == pristine.get() else { continue }
            address = PostgresAddress(try PostgresServer.shared.get().address(), schema: name)
            break
        }
        taken.withLockedValue { $0.append(address.schema) }
        return address
    }

    static func leave(_ schemas: [String]) { idle.withLockedValue { $0 += schemas } }

    private static func empty(_ schema: String) throws {
        // As a replica, which runs no trigger and checks no reference.
        try administrator.get().run(
            """
            SET lock_timeout = '100ms'; SET session_replication_role = replica;
            DO $$
            DECLARE t RECORD;
            BEGIN
              FOR t IN SELECT relname FROM pg_class
                        WHERE relnamespace = '\(schema)'::regnamespace AND relkind = 'r' AND relname <> 'schema_version'
                              AND pg_relation_size(oid) > 0 LOOP
                EXECUTE format('DELETE FROM \(schema).%I', t.relname);
              END LOOP;
              PERFORM setval(format('\(schema).%I', sequencename), start_value, FALSE) FROM pg_sequences WHERE schemaname = '\(schema)';
            END
            $$
            """
        )
    }

    /// All that a schema is but for its rows, and what stands beside it under its name.
    private static func look(of schema: String) throws -> String {
        let name = "'\(schema)'::regnamespace"
        return try administrator.get().run(
            """
            SELECT md5(string_agg(line, ' ' ORDER BY line)) FROM (
              SELECT format('%s %s %s %s %s', relkind, relname, relowner, relacl, reloptions) AS line FROM pg_class WHERE relnamespace = \(name)
              UNION ALL
              SELECT format('%s %s %s %s %s', relname, attname, atttypid, attnotnull, attacl)
                FROM pg_attribute JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = \(name) AND attnum > 0
              UNION ALL
              SELECT format('%s %s %s', relname, tgname, tgenabled)
                FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = \(name) AND NOT tgisinternal
              UNION ALL
              SELECT format('%s %s', relname, conname) FROM pg_constraint JOIN pg_class c ON c.oid = conrelid WHERE relnamespace = \(name)
              UNION ALL
              SELECT format('%s %s %s', proname, md5(prosrc), proacl) FROM pg_proc WHERE pronamespace = \(name)
              UNION ALL
              SELECT format('%s', nspacl) FROM pg_namespace WHERE oid = \(name)
              UNION ALL
              SELECT format('%s statistics', COUNT(*)) FROM pg_statistic JOIN pg_class c ON c.oid = starelid WHERE relnamespace = \(name)
              UNION ALL
              SELECT format('%s roles', COUNT(*)) FROM pg_roles WHERE rolname LIKE '%\\_\(schema)'
              UNION ALL
              SELECT format('%s', v) FROM \(schema).schema_version v
            ) lines
            """,
            isOne: true
        )[0][0]
    }
}
