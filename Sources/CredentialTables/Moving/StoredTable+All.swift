// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension StoredTable {
    /// All tables of a store, in an order in which no row refers to a later one.
    package static let all = [
        StoredTable(made: "app", .setting),
        StoredTable(made: "client", .setting),
        StoredTable(made: "import", .users),
        userEvent,
        credential,
        StoredTable(made: "notification_queue", .users),
        StoredTable(made: "grant_queue", .users),
        StoredTable(made: "revocation_queue", .users),
        StoredTable(made: "revocation", .users),
        StoredTable(made: "notification_log", .log),
        StoredTable(made: "notification_quarantine", .log),
        StoredTable(made: "grant_log", .log),
        StoredTable(made: "request_key", .log),
        StoredTable(made: "delivery", .log),
        StoredTable(made: "delivery_retry", .log),
        StoredTable(made: "revocation_log", .log),
        credentialChange,
        StoredTable(made: "signing_key", .setting),
        StoredTable(made: "secret", .setting),
        StoredTable(made: "credential_count", .setting),
        // SQLite only. In PostgreSQL, the rows tell which new notifications are claimed, and the fleet tells whether siwatch lives. A
        // server has backups of its own.
        StoredTable(made: "counter", .setting, where: "name NOT IN ('notification_queue_claimed', 'alive_at', 'backed_up_at')"),
        // PostgreSQL has a row for each app, to lock it, even if its breaker has judged nothing.
        StoredTable(made: "breaker", .setting, where: "state IS NOT NULL"),
        StoredTable(made: "canary", .users),
        StoredTable(made: "admitted_rejection", .users),
        StoredTable(made: "operator_request", .users),
    ]

    /// PostgreSQL has a row for each user, to lock it, even without any event.
    static let userEvent = StoredTable(
        made: "user_event",
        .users,
        where: "COALESCE(consent_revoked_at, deleted_at, revoked_at, email_at, forwarding_at) IS NOT NULL"
    )
    static let credential = StoredTable(made: "credential", .users)
    static let credentialChange = StoredTable(made: "credential_change", .log)

    /// The views that backends read.
    package static let views = [
        StoredTable(
            "credential_state",
            .view,
            key: "user_id, client_id",
            .texts("app", "client_id", "user_id", "state", "reason", "email", "email_forwarding"),
            .integers("changed_at", "verified_at", "next_check_at"),
            .integers("email_is_private", bytes: 4)
        ),
        StoredTable(
            "user_state",
            .view,
            key: "user_id, app",
            .texts("app", "user_id", "state", "reason", "email", "email_forwarding"),
            .integers("changed_at", "verified_at"),
            .integers("email_is_private", bytes: 4)
        ),
    ]
}

// MARK: The statements that make the tables

extension StoredTable {
    private init(made name: String, _ kind: Kind, where condition: String = "TRUE") {
        guard let body = Self.bodies[.postgres]?[name] else { preconditionFailure("no statement makes the table \(name)") }
        let columns = body.matches(of: /^  (\w+) +([A-Z]+)\b/.anchorsMatchLineEndings()).compactMap { Column(String($0.1), type: $0.2) }
        let key = body.firstMatch(of: /PRIMARY KEY \((.+)\)/)?.1 ?? body.firstMatch(of: /(\w+) .*PRIMARY KEY/)?.1
        self.init(
            name,
            kind,
            key: String(key ?? ""),
            where: condition,
            remembersGreatestID: Self.bodies[.sqlite]?[name]?.contains("AUTOINCREMENT") ?? false,
            columns
        )
    }

    /// The lines between the parentheses of each table.
    private static let bodies: [Dialect: [String: String]] = [.postgres: bodies(.postgres), .sqlite: bodies(.sqlite)]

    private static func bodies(_ dialect: Dialect) -> [String: String] {
        let tables = Tables(dialect)
        let sql = tables.steps(tables.definitions).map(\.sql).joined(separator: "\n")
        let created = sql.matches(of: /CREATE TABLE (\w+) \(\n([\s\S]*?)\n\)/).map { (String($0.1), String($0.2)) }
        return sql.matches(of: /ALTER TABLE (\w+) ADD COLUMN (.+);/).reduce(into: Dictionary(uniqueKeysWithValues: created)) {
            $0[String($1.1)]? += "\n  \($1.2)"
        }
    }
}

extension StoredTable.Column {
    /// Nil for a line that is no column of a server's table.
    fileprivate init?(_ name: String, type: Substring) {
        switch type {
        case "BIGINT": self.init(name: name, form: .integer(8))
        case "INTEGER": self.init(name: name, form: .integer(4))
        case "SMALLINT": self.init(name: name, form: .integer(2))
        case "BOOLEAN": self.init(name: name, form: .integer(1))
        case "TEXT": self.init(name: name, form: .text)
        case "BYTEA": self.init(name: name, form: name == "payload" ? .payload : .bytes)
        default: return nil
        }
    }
}
