// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Where a database is, and in which schema of it siwatch's tables stand.
package struct PostgresAddress: Sendable {
    /// As libpq reads it, a URL or keywords and values. It may hold a password, so it is shown nowhere.
    private let server: String
    package let schema: String

    package init(_ server: String, schema: String = "siwatch") {
        self.server = server
        self.schema = schema
    }

    /// The schema as SQL writes it.
    var quotedSchema: String { "\"\(schema.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\"" }

    /// With what every connection of ours needs. A dead server or road is noticed within half a minute, on both sides; whoever stalls in a
    /// transaction loses it; who waits for a lock gives way.
    var parameters: KeyValuePairs<String, String> {
        let options = [
            "search_path=\(quotedSchema),pg_temp", "lock_timeout=10s", "statement_timeout=60s", "idle_in_transaction_session_timeout=30s",
            "synchronous_commit=on", "tcp_user_timeout=30s", "tcp_keepalives_idle=10", "tcp_keepalives_interval=5",
        ]
        return [
            // libpq takes a whole address in the place of a name. What follows it counts more.
            "dbname": server,
            "options": options.map { "-c " + $0.escapingSpaces }.joined(separator: " "),
            "application_name": "siwatch", "client_encoding": "UTF8", "connect_timeout": "10", "tcp_user_timeout": "30000",
            "keepalives_idle": "10", "keepalives_interval": "5", "target_session_attrs": "read-write",
        ]
    }
}

extension String {
    fileprivate var escapingSpaces: String {
        String(flatMap { " \\".contains($0) ? ["\\", $0] : [$0] })
    }
}
