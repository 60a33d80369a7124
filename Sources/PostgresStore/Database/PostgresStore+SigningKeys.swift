// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

extension PostgresStore {
    package func remember(_ keys: [SigningKeyRecord], fetchedAt: Timestamp) async throws {
        try await writer.transaction { connection in
            // Which rows wait for which key is not written down; to ask all that wait once more costs little.
            let release = """
                UPDATE notification_queue SET due_at = 0
                 WHERE id = ANY (ARRAY(SELECT id FROM notification_queue WHERE \(Schema.anyNotification) AND due_at > 0 AND claimed_by IS NULL
                                        ORDER BY id FOR UPDATE SKIP LOCKED))
                """
            // In their order, so that of two who keep the same keys one waits for the other.
            var new = try keys.sorted { $0.keyID < $1.keyID }.filter { key in
                try connection.rows(
                    """
                    INSERT INTO signing_key AS k (kid, jwk, first_seen_at, last_seen_at) VALUES ($1, $2, $3, $4)
                        ON CONFLICT (kid) DO UPDATE SET jwk = excluded.jwk, last_seen_at = excluded.last_seen_at
                    RETURNING xmax = 0
                    """,
                    key.keyID,
                    key.jwk,
                    key.firstSeenAt,
                    key.lastSeenAt
                ).isTrue
            }.map(\.keyID)
            if !new.isEmpty { try connection.send(release) }
            // Another replica may have known a key first, and this one have put aside since what it signed.
            new += try connection.rows(
                "SELECT DISTINCT detail FROM notification_quarantine WHERE reason = 'unknown_key' AND detail = ANY($1)",
                ArrayOf(keys.map(\.keyID))
            ).map { $0.text(at: 0) ?? "" }
            if !new.isEmpty { try QuarantineRow.release(unknownKeys: new, on: connection) }
        }
        // It stands wherever it came. Where the connection is lost, so is what it knew.
        _ = try? await claims.run { $0.floors.queues[.notification] = nil }
    }
}
