// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// An app's brake on revocations, in columns of `app`.
enum BrakeRow {
    static func load(_ app: Int64, on connection: some TableConnection) throws -> RevocationBrake? {
        try connection.fetchOne(
            """
            SELECT revocation_hour_at, revocations_opened, revocations_braked_at, revocations_held,
                   COALESCE((SELECT count FROM credential_count WHERE app = \(app) AND state = 'authorized'), 0)
              FROM app WHERE id = \(app)
            """
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
            UPDATE app SET revocation_hour_at = \(brake.hourBeganAt.columnValue), revocations_opened = \(brake.opened),
                           revocations_braked_at = \(brake.setAt.columnValue), revocations_held = \(brake.held) WHERE id = \(app)
            """
        )
    }
}
