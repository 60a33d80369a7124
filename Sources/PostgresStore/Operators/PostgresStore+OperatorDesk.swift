// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension PostgresStore: OperatorDesk {
    package func submit(_ request: OperatorRequest, at now: Timestamp) async throws -> Int64 {
        let text = try JSONText.encode(request)
        return try await writer.transaction { connection in
            let row = try connection.rows(
                "INSERT INTO operator_request (request, requested_at) VALUES ($1, $2) RETURNING id",
                text,
                now
            ).first
            return row?.integer(at: 0) ?? 0
        }
    }

    package func answer(to id: Int64) async throws -> OperatorAnswer? {
        let text = try await reader.run { connection in
            try connection.rows("SELECT answer FROM operator_request WHERE id = $1", id).first?.text(at: 0)
        }
        return text.map { JSONText.decode($0) ?? .notUnderstood }
    }

    package func withdraw(_ id: Int64) async throws -> Bool {
        try await writer.run { try $0.run("DELETE FROM operator_request WHERE id = $1 AND answer IS NULL", id) > 0 }
    }

    package func handleNextRequest(under rules: RecheckRules, at now: Timestamp) async throws -> HandledRequest? {
        // An idle round begins no transaction, and waits for no long count.
        let isOpen = try await renewals.run { connection in
            try connection.rows("SELECT EXISTS (SELECT 1 FROM operator_request WHERE \(Schema.open))").isTrue
        }
        guard isOpen else { return nil }
        return try await writer.transaction { connection in
            // New ones first: somebody waits for them. Those that another replica carries out are its own.
            let row = try connection.rows(
                """
                SELECT id, request, requested_at, answer, position FROM operator_request
                 WHERE \(Schema.open)
                 ORDER BY answer IS NOT NULL, id LIMIT 1 FOR UPDATE SKIP LOCKED
                """
            ).first
            guard let row else { return nil }
            return try OperatorTransaction(connection: connection, rules: rules, now: now).handle(row)
        }
    }

    package func enqueue(notification body: [UInt8]) async throws -> Int64 {
        try await writer.run { connection in
            try connection.rows("INSERT INTO notification_queue (payload) VALUES ($1) RETURNING id", body).first?.integer(at: 0) ?? 0
        }
    }

    /// Gives an app another name, in every table that holds it.
    ///
    /// - Throws: `AppRenameError`, and nothing has changed then.
    package func renameApp(_ old: String, to new: String) async throws {
        try await writer.transaction { connection in
            // The logs may be long.
            connection.longestSilence = nil
            try connection.send("SET LOCAL statement_timeout = 0")
            try connection.lockTail()
            // A replica that starts waits here before it takes its apps in, and then finds this one under another name.
            try connection.send("LOCK TABLE replica IN SHARE MODE")
            let isInUse = try connection.rows(
                "SELECT EXISTS (SELECT 1 FROM replica WHERE seen_at > \(Schema.now) - $1)",
                ReplicaStatus.presence
            ).isTrue
            guard !isInUse else { throw AppRenameError.inUse }
            let known = try connection.rows("SELECT name FROM app ORDER BY name").map { $0.text(at: 0) ?? "" }
            guard known.contains(old) else { throw AppRenameError.unknown(old, known: known) }
            guard !known.contains(new) else { throw AppRenameError.taken(new) }
            try connection.send("UPDATE app SET name = $1 WHERE name = $2", new, old)
            // One of the new name is made when somebody owns it.
            try connection.send("DELETE FROM lane WHERE app = $1", old)
            for table in ["notification_log", "revocation_log", "credential_change"] {
                try connection.send("UPDATE \(table) SET app = $1 WHERE app = $2", new, old)
            }
        }
    }
}
