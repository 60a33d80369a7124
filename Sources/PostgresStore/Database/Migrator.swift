// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// Brings a schema up to date, one process at a time.
struct Migrator {
    let address: PostgresAddress
    let connection: Connection
    var steps = Schema.steps
    /// `server_version_num` of the oldest supported server.
    var oldestServer = 140_000

    private var last: SchemaStep { steps[steps.count - 1] }

    static func serverIsTooOld(_ version: String) -> StoreOpenError {
        StoreOpenError("PostgreSQL 14 or newer is needed, and the server is \(version)")
    }

    static let poolerIsInTheWay = StoreOpenError(
        "a pooler on the way drops what siwatch asks for when it connects; name the server itself in database.url"
    )

    /// - Throws: `StoreOpenError`, `PostgresError`.
    func migrate() throws {
        // Most starts find the schema up to date, and need no right to create anything.
        if try examine().isCurrent { return try continueIDs() }
        try connection.send("BEGIN ISOLATION LEVEL READ COMMITTED")
        // All users of the tables wait behind a waiting migration, so it gives up soon.
        try connection.send("SET LOCAL lock_timeout = '3s'")
        try connection.lockMigrations(of: address)
        let script = try plan().script
        if !script.isEmpty { try connection.runScript("SET LOCAL statement_timeout = 0;\n\(script)") }
        try connection.sendCommit()
        try connection.flush()
    }

    /// What a migration would do, as one script. Statements that may have to wait come first.
    /// - Throws: `StoreOpenError` if this program cannot use the schema, or `PostgresError`.
    func plan() throws -> MigrationPlan {
        let (found, isCurrent) = try examine()
        if found == nil {
            try refuseForeign()
            try refuseOthersSchema()
        }
        let script = """
            SET LOCAL search_path TO \(address.searchPath);
            \(found == nil ? beginning : "")\
            \(steps.after(found).script)
            \(Schema.grants(in: address.quotedSchema))\
            \(note(found == nil ? "INSERT INTO schema_version VALUES" : "UPDATE schema_version SET (version, compatible_from) ="))

            """
        return MigrationPlan(found: found, needed: last.version, script: isCurrent ? "" : script)
    }

    /// SQL: notes the version. The row is never deleted, because settlements that wait for their lock wait for it.
    private func note(_ statement: String) -> String { "\(statement) (\(last.version), \(last.compatibleFrom));" }

    private var beginning: String {
        """
        CREATE SCHEMA IF NOT EXISTS \(address.quotedSchema);
        \(Schema.roles.map(Schema.role).joined())\
        CREATE TABLE schema_version (version INTEGER PRIMARY KEY, compatible_from INTEGER NOT NULL);

        """
    }

    /// Whether there is a siwatch that this program can use as it is.
    /// - Throws: `StoreOpenError` if the schema holds something else, or `PostgresError`.
    func isThere() throws -> Bool {
        let (found, isCurrent) = try examine()
        guard let found else {
            try refuseForeign()
            return false
        }
        guard isCurrent else {
            throw StoreOpenError("the schema \(address.schema) has version \(found); siwatch migrate brings it up to date")
        }
        return true
    }

    /// The version of the schema, and whether this program can use it as it is; nil if there is no siwatch yet.
    private func examine() throws -> (version: Int?, isCurrent: Bool) {
        try checkServer()
        try refuseDeparted()
        guard try connection.hasTable("schema_version", of: address),
            let row = try connection.fetchOne("SELECT version, compatible_from FROM \(sql: address.quotedSchema).schema_version")
        else { return (nil, false) }
        let (version, compatibleFrom) = (row.int(at: 0), row.int(at: 1))
        guard compatibleFrom <= last.version else {
            throw StoreOpenError(
                "the schema \(address.schema) has version \(version), made by a newer siwatch; this one knows \(last.version)"
            )
        }
        guard version >= last.version else { return (version, false) }
        try refuseIncomplete()
        return (version, true)
    }

    private func checkServer() throws {
        let question: SQL = """
            SELECT current_setting('server_version_num')::integer, current_setting('server_version'), current_setting('server_encoding'),
                   current_setting('search_path')
            """
        let row: PostgresRow?
        do {
            row = try connection.fetchOne(question)
        } catch let error as PostgresError where error.sqlState == "42P05" {
            // This is the first statement on a new connection, but another client has prepared one there.
            throw Self.poolerIsInTheWay
        }
        guard let row else { return }
        guard row.integer(at: 0) >= oldestServer else { throw Self.serverIsTooOld(row.text(at: 1) ?? "older") }
        guard row.text(at: 2) == "UTF8" else {
            throw StoreOpenError("the database has the encoding \(row.text(at: 2) ?? ""), and UTF8 is needed")
        }
        // The server would create the tables wherever its own search path points.
        guard row.text(at: 3) == address.searchPath else { throw Self.poolerIsInTheWay }
    }

    private func refuseDeparted() throws {
        guard let departure = try connection.departure(of: address) else { return }
        throw StoreOpenError(departure.sentence(of: address.description))
    }

    /// The owner of a schema gives the rights to use it, and can drop its contents.
    private func refuseOthersSchema() throws {
        let owner = try connection.fetchOne(
            "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = \(address.schema) AND NOT pg_has_role(nspowner, 'USAGE')"
        )?.text(at: 0)
        guard let owner else { return }
        throw StoreOpenError("the schema \(address.schema) belongs to \(owner): drop it, or ALTER SCHEMA … OWNER TO siwatch's own user")
    }

    /// Somebody dropped a missing table by hand. No migration creates it again.
    private func refuseIncomplete() throws {
        let there = try connection.fetchAll("SELECT c.relname FROM \(Schema.relations(of: address))").map { $0.text(at: 0) }
        let missing = Schema.tablesAndViews.filter { !there.contains($0) }.sorted().joined(separator: ", ")
        guard missing.isEmpty else {
            throw StoreOpenError("the schema \(address.schema) lacks \(missing), which somebody dropped; restore it from a backup")
        }
    }

    /// Continues ids after the greatest stored one. An operator who copies a database row by row may leave the sequences behind. Then the
    /// server would give ids out again.
    private func continueIDs() throws {
        for table in StoredTable.all.filter({ $0.key == "id" }).map(\.name) {
            let sequence = "pg_get_serial_sequence('\(table)', 'id')"
            // The newest row of the feed is always there. A receipt names its request, which has left the queue.
            let isNew = "pg_sequence_last_value(\(sequence)::regclass) IS NULL"
            let ofReceipts = "CASE WHEN \(isNew) THEN (SELECT MAX(request) FROM revocation_log) END"
            let newest = table == "revocation_queue" ? "GREATEST(MAX(id), \(ofReceipts))" : "MAX(id)"
            try connection.send(
                """
                SELECT setval(\(sql: sequence), newest) FROM (SELECT \(sql: newest) AS newest FROM \(sql: table)) t
                 WHERE newest > COALESCE(pg_sequence_last_value(\(sql: sequence)::regclass), 0)
                   AND has_sequence_privilege(\(sql: sequence), 'UPDATE')
                """
            )
        }
        try connection.flush()
    }

    private func refuseForeign() throws {
        guard try connection.exists("SELECT 1 FROM \(Schema.relations(of: address))") else { return }
        throw StoreOpenError("the schema \(address.schema) holds tables of another program")
    }
}

extension Connection {
    /// Scans the catalog, because the server's memory of names may be older than a lock that the caller waited for.
    func hasTable(_ name: String, of address: PostgresAddress) throws -> Bool {
        try exists("SELECT 1 FROM \(Schema.relations(of: address)) WHERE c.relname = \(name)")
    }

    /// Takes the lock of migrations and moves, until the transaction ends.
    func lockMigrations(of address: PostgresAddress) throws {
        try send("SELECT pg_advisory_xact_lock(1397315393, hashtext(\(address.schema)))")
    }
}
