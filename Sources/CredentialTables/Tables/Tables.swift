// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The tables and views that both engines have, in the SQL of one. Backends write and read some of them: these are the program's public
/// interface, and docs/schema.md explains them.
///
/// Step 1 is frozen, and it uses constants that queries use. If a query needs another value, step 1 keeps the old one. SQLite keeps the
/// text of its tables, and siwatch compares it, so that not even a space may change.
package struct Tables: Sendable {
    let dialect: Dialect

    package init(_ dialect: Dialect) {
        self.dialect = dialect
    }

    /// - Parameter first: the statements of step 1, which the engine puts together.
    package func steps(_ first: String) -> [SchemaStep] {
        [
            SchemaStep(version: 1, compatibleFrom: 1, summary: "all tables and views", sql: first),
            SchemaStep(
                version: 2,
                compatibleFrom: 1,
                summary: "what Apple said of a sign-in by code, the keys of requests over HTTP, and deliveries",
                sql: doors
            ),
            SchemaStep(
                version: 3,
                compatibleFrom: 1,
                summary: "from when a request to revoke counts",
                sql: "ALTER TABLE revocation_queue ADD COLUMN effective_at \(integer);"
            ),
            SchemaStep(
                version: 4,
                compatibleFrom: 1,
                summary: "from when an answered request to revoke counts, how many sign-ins undo what Apple has signed, "
                    + "doubted rejections, and imports",
                sql: tallies + imports
            ),
        ]
    }

    /// The tables of step 1.
    package var definitions: String { queues + logs + registers + bookkeeping }

    /// Counts as `UserRecord.Tally` does.
    private var tallies: String {
        """
        ALTER TABLE revocation_log ADD COLUMN effective_at \(integer);
        ALTER TABLE app ADD COLUMN ended \(integer) NOT NULL DEFAULT 0;
        ALTER TABLE app ADD COLUMN unproven \(integer) NOT NULL DEFAULT 0;
        UPDATE app SET (ended, unproven) = (
          SELECT COUNT(*), COUNT(*) FILTER (WHERE c.state = 'authorized' AND (c.rejected_at > 0 AND c.verified_at IS NULL
                   OR c.granted_at > COALESCE(c.token_granted_at, 0) AND c.granted_at > COALESCE(c.verified_at, 0)))
            FROM credential c JOIN user_event u ON u.user_id = c.user_id AND u.app = c.app
           WHERE c.app = app.id AND c.granted_at > 0 AND COALESCE(u.consent_revoked_at, u.deleted_at) > 0);
        CREATE INDEX credential_doubted ON credential (app, user_id) WHERE answer = 'rejected' AND due_at IS NOT NULL;

        """
    }

    private var imports: String {
        """
        -- told: how many sign-ins, but for those that an undo has taken back or given up. Their first and their last batch.
        CREATE TABLE import (
          id        \(id),
          name      \(name)    NOT NULL UNIQUE,
          told      \(integer) NOT NULL,
          told_from \(integer) NOT NULL,
          told_to   \(integer) NOT NULL
        )\(rows);
        -- The import that tells the row, and the one that alone has told of the credential.
        ALTER TABLE grant_queue ADD COLUMN import_id \(integer);
        ALTER TABLE credential ADD COLUMN imported_by \(integer);
        CREATE INDEX grant_queue_import ON grant_queue (import_id, id) WHERE import_id IS NOT NULL;
        CREATE INDEX credential_imported ON credential (imported_by, user_id) WHERE imported_by IS NOT NULL;
        """
    }

    // MARK: Conditions

    /// Which rows of the quarantine are in a ring.
    package func members(of ring: UnsignedRing) -> String {
        switch ring {
        case .forged: "(\(isOne("reason", of: "malformed", "not_an_event", "wrong_algorithm", "forbidden_header", "bad_signature")))"
        case .unknownKey: "reason = 'unknown_key'"
        }
    }

    /// Whether a column holds one of some words. Does not use IN for SQLite, which builds a table of more than two words with every row
    /// that it checks.
    func isOne(_ column: String, of values: String...) -> String {
        switch dialect {
        case .sqlite: values.map { "\(column) = '\($0)'" }.joined(separator: " OR ")
        case .postgres: "\(column) IN (\(values.map { "'\($0)'" }.joined(separator: ", ")))"
        }
    }

    // MARK: Words that the engines have not in common

    func words(sqlite: String, postgres: String) -> String {
        switch dialect {
        case .sqlite: sqlite
        case .postgres: postgres
        }
    }

    /// The id of a row.
    var id: String { words(sqlite: "INTEGER PRIMARY KEY", postgres: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY") }
    /// The id of a row, which no later row gets.
    var lastingID: String { words(sqlite: "INTEGER PRIMARY KEY AUTOINCREMENT", postgres: id) }
    var integer: String { words(sqlite: "INTEGER", postgres: "BIGINT") }
    var small: String { words(sqlite: "INTEGER", postgres: "SMALLINT") }
    /// A text of which there is an index. A server compares it by its bytes, whatever its locale, so that a library with a new sort order
    /// breaks no index.
    var name: String { words(sqlite: "TEXT", postgres: "TEXT COLLATE \"C\"") }
    var bytes: String { words(sqlite: "BLOB", postgres: "BYTEA") }
    var payload: String { words(sqlite: "TEXT", postgres: "BYTEA") }
    var noTime: String { words(sqlite: "NULL", postgres: "NULL::bigint") }

    func flag(_ column: String) -> String {
        words(sqlite: "INTEGER NOT NULL DEFAULT 0 CHECK (\(column) IN (0, 1))", postgres: "BOOLEAN NOT NULL DEFAULT FALSE")
    }

    /// On a server no table references one that all settlements write, because each reference would lock a row of it.
    func references(_ table: String) -> String { words(sqlite: " REFERENCES \(table) (id)", postgres: "") }

    /// The end of a table with ids.
    var rows: String { words(sqlite: " STRICT", postgres: "") }
    /// The end of a table with another key.
    var keyed: String { words(sqlite: " STRICT, WITHOUT ROWID", postgres: "") }
    /// The end of a table whose few rows change all the time.
    var counted: String { words(sqlite: keyed, postgres: " WITH (fillfactor = 10)") }
}
