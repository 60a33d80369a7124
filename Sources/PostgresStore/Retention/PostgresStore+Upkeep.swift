// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables

extension PostgresStore {
    /// Erased bytes stay in dead rows until the server's vacuum has passed, and in the server's log and archives. siwatch cannot erase them
    /// there.
    package func sweep(at now: Timestamp) async throws {
        try await endStalledTransactions()
    }

    package var logPinnedSince: Timestamp? {
        get async throws { try await oldestSnapshot(heldFor: .seconds(60)) }
    }

    /// Since when somebody holds a snapshot of the database, or has written and not committed. Vacuum leaves the rows that they may still
    /// see. A vacuum itself blocks nobody. The server shows other users' transactions only to members of `pg_read_all_stats`.
    ///
    /// - Parameter time: the least age of a snapshot that counts. The result is nil if there is none.
    func oldestSnapshot(heldFor time: Duration) async throws -> Timestamp? {
        try await reader.run { connection in
            try connection.rows(
                """
                SELECT (floor(extract(epoch FROM MIN(since)) * 1000))::bigint
                  FROM (SELECT COALESCE(xact_start, query_start) AS since FROM pg_stat_activity
                         WHERE num_nulls(backend_xmin, backend_xid) < 2 AND datname = current_database() AND pid <> pg_backend_pid()
                           AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
                        UNION ALL SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()) held
                 WHERE since <= clock_timestamp() - \(time) * INTERVAL '1 millisecond'
                """
            ).first?.time(at: 0)
        }
    }
}
