// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

extension PostgresStore {
    /// A process that pauses longer in mid-send has stopped: it is frozen, or its host has other troubles.
    private static let longestPauseInAFlight = Duration.seconds(5)

    /// Ends the transactions of a stalled siwatch: the server has heard their beginning and waits for the rest. They hold locks, perhaps
    /// the one that all settlements share. No time-out of the server runs between two messages, and the host of a frozen process answers
    /// keepalives. None of their work is committed. Their process finds the connection lost, and does all of it again.
    func endStalledTransactions() async throws {
        _ = try await writer.run { [address] connection in
            try connection.rows(
                """
                SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
                 WHERE a.usename = current_user AND a.datname = current_database() AND a.pid <> pg_backend_pid()
                   AND a.state = 'active' AND a.wait_event = 'ClientRead' AND a.query NOT ILIKE 'COPY%'
                   AND a.query_start < clock_timestamp() - \(Self.longestPauseInAFlight) * INTERVAL '1 millisecond'
                   AND EXISTS (SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
                                WHERE l.pid = a.pid AND l.granted AND n.nspname = \(address.schema))
                """
            ).count
        }
    }
}
