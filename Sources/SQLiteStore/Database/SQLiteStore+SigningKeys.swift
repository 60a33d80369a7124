// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import GRDB

extension SQLiteStore {
    package func remember(_ keys: [SigningKeyRecord], fetchedAt: Timestamp) async throws {
        try await write { [owner] db in
            var isNewKeyThere = false
            for key in keys {
                let isNew = try !Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM signing_key WHERE kid = ?)", arguments: [key.keyID])!
                try db.execute(
                    sql: """
                        INSERT INTO signing_key (kid, jwk, first_seen_at, last_seen_at) VALUES (?, ?, ?, ?)
                            ON CONFLICT (kid) DO UPDATE SET jwk = excluded.jwk, last_seen_at = excluded.last_seen_at
                        """,
                    arguments: [key.keyID, key.jwk, key.firstSeenAt.milliseconds, key.lastSeenAt.milliseconds]
                )
                guard isNew else { continue }
                isNewKeyThere = true
                try QuarantineRow.release(unknownKeys: [key.keyID], on: SQLiteConnection(db))
            }
            if isNewKeyThere {
                // Which rows wait for which key is not written down; to ask all that wait once more costs little.
                try NotificationRows(db: db, owner: owner).release()
            }
        }
    }
}
