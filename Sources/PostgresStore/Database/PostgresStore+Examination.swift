// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables

package struct ServerExamination: Sendable, Equatable {
    /// Problems that keep siwatch from working there.
    package var obstacles: [String] = []
    package var warnings: [String] = []
}

extension PostgresStore {
    /// Examines a server without changing anything.
    /// - Parameter clockSkew: how far the server's clock and siwatch's may be apart.
    /// - Throws: `StoreOpenError` if the schema holds something else or a newer siwatch, or `StoreError`.
    package static func examine(_ address: PostgresAddress, clock: WallClock, clockSkew: Duration) throws -> ServerExamination {
        do {
            return try PostgresStore(address).writer.wait {
                try Examiner(address: address, connection: $0, clock: clock, clockSkew: clockSkew).examine()
            }
        } catch StoreError.readOnly(let reason) {
            return ServerExamination(
                obstacles: ["this user may not use the schema \(address.schema), and siwatch is to log in as its owner: \(reason)"]
            )
        }
    }

    /// Tables of the schema that this user may not read. `pg_dump` would fail on them.
    package static func unreadableTables(at address: PostgresAddress) throws -> [String] {
        try PostgresStore.reader(of: address).wait { connection in
            try connection.fetchAll(
                """
                SELECT c.relname FROM \(Schema.relations(of: address))
                 WHERE c.relkind IN ('r', 'v', 'S') AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY c.relname
                """
            ).map { $0[0] }
        }
    }
}

private struct Examiner {
    let address: PostgresAddress
    let connection: Connection
    let clock: WallClock
    let clockSkew: Duration

    /// The connections of one siwatch: its writer, claims, reader, renewals and listener, and two for the HTTP door.
    private static let connections = 7

    func examine() throws -> ServerExamination {
        var found = ServerExamination()
        found.obstacles = try Migrator(address: address, connection: connection).isThere() ? missingRights() : missingRightsToMigrate()
        found.warnings = try settings() + loggedValues() + readersOfTokens() + sight() + room() + distanceOfClocks()
        if try !connection.speaksWithTheServerItself() {
            found.warnings.append(
                """
                a pooler stands in the way: in transaction mode siwatch's wake-ups and prepared statements do not pass it; name the server \
                itself in database.url
                """
            )
        }
        return found
    }

    private func missingRights() throws -> [String] {
        // If somebody else owns the schema, the GRANT of a migration only warns, and nobody hears the warning.
        let strangers = try Schema.roles.filter { try !isTrue("SELECT has_schema_privilege(\($0)::name, \(address.schema), 'USAGE')") }
        if !strangers.isEmpty {
            let roles = strangers.joined(separator: ", ")
            return ["\(roles) may not use the schema \(address.schema): GRANT USAGE ON SCHEMA \(address.schema) TO \(roles)"]
        }
        let tables = try connection.fetchAll(
            """
            SELECT c.relname FROM \(Schema.relations(of: address))
             WHERE c.relkind = 'r'
               AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
             ORDER BY c.relname
            """
        ).map { $0.text(at: 0) ?? "" }
        return tables.isEmpty ? [] : ["this user may not write \(tables.joined(separator: ", ")); siwatch is to log in as their owner"]
    }

    private func missingRightsToMigrate() throws -> [String] {
        var missing: [String] = []
        if try !isTrue("SELECT has_database_privilege(current_database(), 'CREATE')") {
            missing.append(
                """
                this user may not create the schema \(address.schema); GRANT CREATE ON DATABASE \(try text("SELECT quote_ident(current_database())")) \
                TO \(try text("SELECT quote_ident(current_user)")) lets it
                """
            )
        }
        let roles = try Schema.roles.filter { try !connection.exists("SELECT 1 FROM pg_roles WHERE rolname = \($0)") }
        if !roles.isEmpty, try !isTrue("SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user") {
            missing.append(
                "this user may not create the roles \(roles.joined(separator: " and ")): let an administrator run "
                    + roles.map { "CREATE ROLE \($0) NOLOGIN" }.joined(separator: "; ")
            )
        }
        return missing
    }

    private func settings() throws -> [String] {
        let meanings = [
            "fsync": "a crash of the server's host loses commits, or the database",
            "full_page_writes": "a crash of the server's host can damage the database",
            "autovacuum": "what siwatch deletes stays on disk, and every claim becomes slower",
        ]
        let isTerse = try isTrue("SELECT current_setting('log_error_verbosity') = 'terse'")
        let quoting = "log_error_verbosity is not terse: a row that is refused stands in the server's log, its token too"
        return try (isTerse ? [] : [quoting])
            + meanings.sorted { $0.key < $1.key }.compactMap { name, meaning in
                try text("SELECT current_setting(\(name))") == "off" ? "\(name) is off: \(meaning)" : nil
            }
    }

    /// The server's log may quote the values bound to slow statements, or to all. The settings for backends count, and may be set for
    /// backends alone.
    private func loggedValues() throws -> [String] {
        let queue = "\(address.quotedSchema).grant_queue"
        let causes = try connection.fetchAll(
            """
            WITH settings AS (
              SELECT name, setting, setting || COALESCE(unit, '') AS words, source NOT IN ('user', 'database user') AS is_everybodys
                FROM pg_settings
              UNION ALL
              SELECT split_part(config, '=', 1), split_part(config, '=', 2),
                     split_part(config, '=', 2) || ' for ' || COALESCE(quote_ident(r.rolname), 'this database'), s.setrole = 0
                FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) config LEFT JOIN pg_roles r ON r.oid = s.setrole
               WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
                 AND (s.setrole = 0 OR r.rolname <> current_user
                      AND has_column_privilege(r.oid, to_regclass(\(queue))::oid, 'refresh_token', 'INSERT')))
            SELECT name || ' is ' || words FROM settings
             WHERE CASE name WHEN 'log_statement' THEN setting IN ('mod', 'all')
                             WHEN 'log_min_duration_statement' THEN setting <> '-1'
                             WHEN 'log_min_duration_sample' THEN setting <> '-1'
                             WHEN 'log_transaction_sample_rate' THEN setting <> '0'
                   END AND NOT EXISTS (SELECT 1 FROM settings WHERE name = 'log_parameter_max_length' AND setting = '0' AND is_everybodys)
                OR name = 'log_parameter_max_length_on_error' AND setting <> '0'
             ORDER BY 1 LIMIT 5
            """
        ).map { $0.text(at: 0) ?? "" }
        guard !causes.isEmpty else { return [] }
        return [
            """
            \(causes.joined(separator: ", ")): what a backend inserts may come into the server's log, its token too; \
            log_parameter_max_length = 0 and log_parameter_max_length_on_error = 0 keep it out
            """
        ]
    }

    /// Other roles that can read the clear tokens in the queue. Leaves out administrators, because everybody knows that they can.
    private func readersOfTokens() throws -> [String] {
        let readers = try connection.fetchAll(
            """
            SELECT quote_ident(r.rolname) FROM pg_roles r
              JOIN (\(Schema.relations(of: address))) ON c.relname = 'grant_queue'
             WHERE NOT r.rolsuper AND r.oid <> c.relowner AND r.rolname !~ '^pg_'
               AND (has_column_privilege(r.oid, c.oid, 'refresh_token', 'SELECT')
                    OR has_column_privilege(r.oid, c.oid, 'authorization_code', 'SELECT'))
             ORDER BY 1
            """
        ).map { $0.text(at: 0) ?? "" }
        let publications = try connection.fetchAll(
            """
            SELECT quote_ident(pubname) FROM pg_publication WHERE puballtables
            UNION SELECT quote_ident(pubname) FROM pg_publication_tables WHERE schemaname = \(address.schema) AND tablename = 'grant_queue'
             ORDER BY 1
            """
        ).map { $0.text(at: 0) ?? "" }
        let queue = "the tokens and codes that stand in grant_queue until siwatch has taken them"
        return (readers.isEmpty ? [] : ["\(readers.joined(separator: ", ")) may read \(queue)"])
            + (publications.isEmpty ? [] : ["the publication \(publications.joined(separator: ", ")) sends its subscribers \(queue)"])
    }

    private func sight() throws -> [String] {
        if try isTrue("SELECT pg_has_role('pg_read_all_stats', 'USAGE')") { return [] }
        let user = try text("SELECT quote_ident(current_user)")
        return ["this user does not see since when others hold a snapshot, which keeps dead rows: GRANT pg_read_all_stats TO \(user)"]
    }

    private func room() throws -> [String] {
        let free = try connection.fetchOne(
            """
            SELECT current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
                   - (SELECT COUNT(*)::integer FROM pg_stat_activity WHERE datname IS NOT NULL)
            """
        )?.int(at: 0)
        guard let free, free < Self.connections else { return [] }
        return ["\(max(free, 0)) connections are free, and each siwatch needs \(Self.connections): raise max_connections"]
    }

    private func distanceOfClocks() throws -> [String] {
        let before = clock.now
        let server = try connection.time()
        let apart = server < before ? server.duration(to: before) : before.duration(to: server)
        guard apart > clockSkew else { return [] }
        return ["its clock and that of this host are \(apart.components.seconds) s apart, and queues.clock_skew allows less"]
    }

    private func text(_ sql: SQL) throws -> String { try connection.fetchOne(sql)?.text(at: 0) ?? "" }
    private func isTrue(_ sql: SQL) throws -> Bool { try connection.fetchOne(sql)?.bool(at: 0) ?? false }
}
