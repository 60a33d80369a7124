// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension StoreUnderTest {
    func receive(_ payload: String = "jws", at time: Timestamp = .start) async throws { try await receive(Array(payload.utf8), at: time) }

    func receive(_ payload: [UInt8], at time: Timestamp = .start) async throws {
        try await run("INSERT INTO notification_queue (payload, received_at) VALUES (CAST(? AS TEXT), ?)", [.bytes(payload), .at(time)])
    }

    func receive(_ count: Int, at time: Timestamp = .start, bytes: Int = 3) async throws {
        let payload = SQLValue.text(String(repeating: "x", count: bytes))
        try await insert(count, into: "notification_queue (payload, received_at)", "CAST(? AS TEXT), ?", [payload, .at(time)])
    }

    /// Inserts many rows, each with its number `n` from 1.
    func insert(_ count: Int, into columns: String, _ values: String, _ arguments: [SQLValue] = []) async throws {
        let numbers = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < \(count))"
        try await run("\(numbers) INSERT INTO \(columns) SELECT \(values) FROM c", arguments)
    }

    /// Inserts a row of which each value is SQL, by its column.
    func insert(into queue: String, _ values: [String: String]) async throws {
        let columns = values.keys.joined(separator: ", ")
        try await run("INSERT INTO \(queue) (\(columns)) VALUES (\(values.values.joined(separator: ", ")))")
    }

    func grant(
        _ user: String = "user",
        client: String = "app",
        token: String? = nil,
        email: EmailAddress? = nil,
        at time: Timestamp = .start
    ) async throws {
        let columns = "client_id, user_id, refresh_token, email, email_is_private, granted_at"
        let values = [.text(client), .text(user), SQLValue(token), SQLValue(email?.text), SQLValue(email?.isPrivate), .at(time)]
        try await run("INSERT INTO grant_queue (\(columns)) VALUES (?, ?, ?, ?, ?, ?)", values)
    }

    func grant(_ user: String = "user", client: String = "app", sealed: [UInt8], at time: Timestamp = .start) async throws {
        let insert = "INSERT INTO grant_queue (client_id, user_id, token_sealed, granted_at) VALUES (?, ?, ?, ?)"
        try await run(insert, [.text(client), .text(user), .bytes(sealed), .at(time)])
    }

    func grant(_ user: String? = "user", client: String = "app", code: String, at time: Timestamp = .start) async throws {
        let insert = "INSERT INTO grant_queue (client_id, user_id, authorization_code, granted_at) VALUES (?, ?, ?, ?)"
        try await run(insert, [.text(client), SQLValue(user), .text(code), .at(time)])
    }

    func requestRevocation(_ user: String = "user", client: String = "app", at time: Timestamp = .start) async throws {
        let insert = "INSERT INTO revocation_queue (client_id, user_id, requested_at) VALUES (?, ?, ?)"
        try await run(insert, [.text(client), .text(user), .at(time)])
    }
}
