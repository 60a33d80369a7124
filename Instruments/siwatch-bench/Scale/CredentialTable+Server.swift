// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import GRDB

extension CredentialTable {
    /// Writes the same rows to PostgreSQL. There each user has an event row, as after the first settlement.
    func fillServer(_ place: Workplace) async throws {
        try await place.withBackend { backend in
            let index: String = try await backend.rows("SELECT pg_get_indexdef('credential_due'::regclass)").first?[0] ?? ""
            let now = Int64(Date.now.timeIntervalSince1970 * 1000)
            try await backend.execute("DROP INDEX credential_due")
            try await backend.execute(
                """
                INSERT INTO credential (user_id, client, app, state, reason, changed_at, granted_at, token_granted_at,
                                        token_fingerprint, sealed_token, due_at)
                SELECT lpad((i * 2000 / \(size))::text, 6, '0') || '.' || m.hex || n.hex || m.hex || n.hex || '.'
                         || lpad((i % 10000)::text, 4, '0'),
                       client.id, client.app, 'authorized', 'granted', \(now), \(now), \(now),
                       f.bytes, f.bytes || f.bytes || f.bytes, \(now) + 21600000 + (m.number % 61200) * 1000
                  FROM client, generate_series(0::bigint, \(size - 1)) AS i,
                       LATERAL (SELECT (i * 2654435761) & 4294967295 AS number,
                                       lpad(to_hex((i * 2654435761) & 4294967295), 8, '0') AS hex) AS m,
                       LATERAL (SELECT lpad(to_hex(i), 8, '0') AS hex) AS n,
                       LATERAL (SELECT sha256(int8send(i)) AS bytes) AS f
                 WHERE client.client_id = '\(Workplace.clientID)'
                """
            )
            try await backend.execute("INSERT INTO user_event (user_id, app) SELECT user_id, app FROM credential ON CONFLICT DO NOTHING")
            try await backend.execute(index)
            try await backend.execute(
                "UPDATE credential_count SET count = (SELECT COUNT(*) FROM credential) WHERE state = 'authorized'"
            )
            // Otherwise the server would vacuum by itself during the measurement.
            try await backend.execute("VACUUM (FREEZE, ANALYZE)")
            try await backend.execute("CHECKPOINT")
        }
    }
}
