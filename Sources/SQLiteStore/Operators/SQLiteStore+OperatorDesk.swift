// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB
import NIOConcurrencyHelpers

extension SQLiteStore: OperatorDesk {
    package func submit(_ request: OperatorRequest, at now: Timestamp) async throws -> Int64 {
        let text = try JSONText.encode(request)
        return try await write { db in
            try db.execute(
                sql: "INSERT INTO operator_request (request, requested_at) VALUES (?, ?)",
                arguments: [text, now.milliseconds]
            )
            return db.lastInsertedRowID
        }
    }

    package func answer(to id: Int64) async throws -> OperatorAnswer? {
        let text = try await read { db in
            try String.fetchOne(
                db.cachedStatement(sql: "SELECT answer FROM operator_request WHERE id = ? AND answer IS NOT NULL"),
                arguments: [id]
            )
        }
        return text.map { JSONText.decode($0) ?? .notUnderstood }
    }

    package func withdraw(_ id: Int64) async throws -> Bool {
        try await write { db in
            try db.execute(sql: "DELETE FROM operator_request WHERE id = ? AND answer IS NULL", arguments: [id])
            return db.changesCount > 0
        }
    }

    package func handleNextRequest(under rules: RecheckRules, at now: Timestamp) async throws -> HandledRequest? {
        // An idle round takes no write lock.
        let isOpen = try await read { db in
            try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM operator_request WHERE \(Schema.open))")) ?? false
        }
        guard isOpen else { return nil }
        return try await write { db in
            // New ones first: somebody waits for them.
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT id, request, requested_at, answer, position FROM operator_request
                         WHERE \(Schema.open)
                         ORDER BY answer IS NOT NULL, id LIMIT 1
                        """
                )
            )
            guard let row else { return nil }
            return try OperatorTransaction(db: db, rules: rules, now: now).handle(row)
        }
    }
}
