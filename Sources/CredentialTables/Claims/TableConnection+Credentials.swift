// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension TableConnection {
    /// An operator's pause survives restarts. siwatch asks about nobody, and due checks stay due.
    func isPaused(_ app: Int64) throws -> Bool {
        try fetchOne("SELECT paused_at IS NOT NULL FROM app WHERE id = \(app)")?.bool(at: 0) ?? false
    }

    /// Remembers when a canary was asked about out of turn.
    func note(_ canary: DueCredential, _ directory: ClientDirectory, at now: Timestamp) throws {
        try execute(
            """
            INSERT INTO canary (user_id, client, asked_at)
             VALUES (\(canary.id.userID), \((directory.clients[canary.id.clientID]?.id).columnValue), \(now))
                ON CONFLICT (user_id, client) DO UPDATE SET asked_at = excluded.asked_at
            """
        )
    }
}
