// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// An app's brake on revocations, in columns of `app`.
enum BrakeRow {
    static func load(_ app: Int64, on connection: some TableConnection) throws -> RevocationBrake? {
        try connection.fetchOne(
            """
            SELECT revocation_hour_at, revocations_opened, revocations_braked_at, revocations_held,
                   COALESCE((SELECT count FROM credential_count WHERE app = $1 AND state = 'authorized'), 0)
              FROM app WHERE id = $1
            """,
            app
        ).map { row in
            RevocationBrake(
                hourBeganAt: row.time(at: 0),
                opened: row.count(at: 1),
                setAt: row.time(at: 2),
                held: row.count(at: 3),
                authorized: row.count(at: 4)
            )
        }
    }

    static func save(_ brake: RevocationBrake, of app: Int64, on connection: some TableConnection) throws {
        try connection.execute(
            """
            UPDATE app SET revocation_hour_at = $2, revocations_opened = $3, revocations_braked_at = $4, revocations_held = $5 WHERE id = $1
            """,
            app,
            brake.hourBeganAt,
            brake.opened,
            brake.setAt,
            brake.held
        )
    }
}
