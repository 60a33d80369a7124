// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import GRDB

/// Credentials without sign-ins, written to the private table directly, because ten million sign-ins would take hours.
struct CredentialTable: Sendable {
    let size: Int

    /// All are due after this time, and none in the first six hours.
    static let allDue = Duration.seconds(86_400)
    private static let rowsPerCommit = 250_000

    var name: String { Double(size).rounded(to: 0) }

    func user(_ number: Int) -> String {
        let mixed = UInt32(truncatingIfNeeded: UInt64(number) &* 2_654_435_761)
        return String(format: "%06d.%08x%08x%08x%08x.%04d", number * 2000 / size, mixed, number, mixed, number, number % 10_000)
    }

    /// Writes them in the order of the users. The due times are in no order.
    func fill(_ place: Workplace) async throws {
        if place.schema == nil { try fill(place.folder.databasePath) } else { try await fillServer(place) }
    }

    private func fill(_ path: String) throws {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        let index = try queue.read { db in
            try String.fetchOne(db, sql: "SELECT sql FROM sqlite_schema WHERE name = 'credential_due'") ?? ""
        }
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA synchronous = OFF; PRAGMA cache_size = -262144; DROP INDEX credential_due")
            for first in stride(from: 0, to: size, by: Self.rowsPerCommit) {
                try db.execute(
                    sql: """
                        INSERT INTO credential (user_id, client, app, state, reason, changed_at, granted_at, token_granted_at,
                                                token_fingerprint, sealed_token, due_at)
                          WITH RECURSIVE number(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM number WHERE i + 1 < :end),
                               mixed(i, m) AS (SELECT i, (i * 2654435761) & 4294967295 FROM number)
                        SELECT printf('%06d.%08x%08x%08x%08x.%04d', i * 2000 / :size, m, i, m, i, i % 10000), client.id, client.app,
                               'authorized', 'granted', :now, :now, :now, randomblob(32), randomblob(96),
                               :now + 21600000 + (m % 61200) * 1000
                          FROM mixed, client WHERE client.client_id = '\(Workplace.clientID)'
                        """,
                    arguments: [
                        "first": first, "end": min(first + Self.rowsPerCommit, size), "size": size,
                        "now": Int64(Date.now.timeIntervalSince1970 * 1000),
                    ]
                )
                try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
            }
            try db.execute(sql: index)
            try db.execute(sql: "UPDATE credential_count SET count = (SELECT COUNT(*) FROM credential) WHERE state = 'authorized'")
            try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        }
    }

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
            try await backend.execute("UPDATE credential_count SET count = (SELECT COUNT(*) FROM credential) WHERE state = 'authorized'")
            // Otherwise the server would vacuum by itself during the measurement.
            try await backend.execute("VACUUM (FREEZE, ANALYZE)")
            try await backend.execute("CHECKPOINT")
        }
    }
}
