// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Values that no public table shows. The private tables have the same names in every store.
extension StoreUnderTest {
    var sealedTokens: Int64? {
        get async throws { try await count("credential WHERE sealed_token IS NOT NULL") }
    }

    /// Overwrites the published row of a user at a client, for states that the ports cannot produce yet.
    func publish(_ state: String, _ reason: String, changedAt: SQLValue, _ user: String = "user", client: String) async throws {
        try await run(
            """
            UPDATE credential SET state = ?, reason = ?, changed_at = ?
             WHERE user_id = ? AND client = (SELECT id FROM client WHERE client_id = ?)
            """,
            [.text(state), .text(reason), changedAt, .text(user), .text(client)]
        )
    }
}
