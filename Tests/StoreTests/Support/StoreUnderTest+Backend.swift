// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension StoreUnderTest {
    func receive(_ payload: String = "jws", at time: Timestamp = .start) async throws { try await receive(Array(payload.utf8), at: time) }

    func receive(_ payload: [UInt8], at time: Timestamp = .start) async throws {
        try await run("INSERT INTO notification_queue (payload, received_at) VALUES (CAST(? AS TEXT), ?)", [.bytes(payload), .at(time)])
    }

    func receive(_ count: Int, at time: Timestamp = .start, bytes: Int = 3) async throws {
        try await run(
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            INSERT INTO notification_queue (payload, received_at) SELECT CAST(? AS TEXT), ? FROM n
            """,
            [.integer(Int64(count)), .text(String(repeating: "x", count: bytes)), .at(time)]
        )
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
