// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// An app's revocation limit, in columns of `app`.
enum RevocationLimitRow {
    static func load(_ app: Int64, on connection: some TableConnection) throws -> RevocationLimit? {
        try connection.fetchOne(
            """
            SELECT revocation_hour_at, revocations_opened, revocations_held_at, revocations_held,
                   COALESCE((SELECT count FROM credential_count WHERE app = \(app) AND state = 'authorized'), 0)
              FROM app WHERE id = \(app)
            """
        ).map { row in
            RevocationLimit(
                hourBeganAt: row.time(at: 0),
                opened: row.count(at: 1),
                reachedAt: row.time(at: 2),
                held: row.count(at: 3),
                authorized: row.count(at: 4)
            )
        }
    }

    static func save(_ limit: RevocationLimit, of app: Int64, on connection: some TableConnection) throws {
        try connection.execute(
            """
            UPDATE app SET revocation_hour_at = \(limit.hourBeganAt.columnValue), revocations_opened = \(limit.opened),
                           revocations_held_at = \(limit.reachedAt.columnValue), revocations_held = \(limit.held) WHERE id = \(app)
            """
        )
    }
}
