// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

extension PostgresStore {
    /// A backend's insert locks nothing that a settlement locks.
    package var holdsBackendsUp: Bool { false }

    /// The time to give up a frozen server, and then to look for the outcome of a commit.
    package var longestSilence: Duration { Connection.longestSilence + .seconds(45) }

    package func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettlementChanges {
        guard !settlements.isEmpty else { return SettlementChanges() }
        let directory = self.directory.withLockedValue { $0 }
        let number = batches.withLockedValue { number in
            number += 1
            return number
        }
        let batch = BatchNumber(owner: owner, number: number)
        do {
            return try await writer.provenTransaction { [hasBatchRow, decisions] connection in
                if !hasBatchRow.withLockedValue(\.self) {
                    try batch.makeRow(on: connection, at: now)
                    hasBatchRow.withLockedValue { $0 = true }
                }
                try connection.send("BEGIN ISOLATION LEVEL READ COMMITTED")
                // Write the number first. Its reader then waits until this transaction has ended, wherever it is. The row is this process's
                // own.
                try batch.sendWrite(on: connection, at: now)
                let transaction = SettlementTransaction(on: connection, directory: directory, decisions, rules: rules, at: now)
                let batch = try transaction.send(settlements)
                try connection.sendCommit()
                return batch.result
            } isCommitted: { connection in
                try batch.isWritten(on: connection)
            }
        } catch StoreError.retry(let reason) {
            // Somebody holds a lock that this needs. If the holder is a stalled siwatch, this ends its transaction.
            try await endStalledTransactions()
            throw StoreError.retry(reason)
        } catch is OutdatedDirectory {
            // Another replica has registered clients, or the server has lost this one's clients in a failover or a restore.
            let apps = registered.withLockedValue { $0 }
            let known = try await writer.transaction { connection in
                var known = directory
                try known.register(apps, on: connection)
                return known
            }
            self.directory.withLockedValue { $0 = known }
            throw StoreError.retry("the clients in the database are others than before")
        }
    }
}

/// The number of a process's last settled batch, committed with it, for a process that has not heard the answer to a COMMIT. It has a row
/// of its own and not the replica's, so that a renewal waits for no commit.
struct BatchNumber {
    let owner: String
    let number: Int64

    /// Makes the row in a separate transaction, because a reader can only wait for a row that exists.
    func makeRow(on connection: Connection, at now: Timestamp) throws {
        try connection.change("INSERT INTO settled_batch (owner, number, settled_at) VALUES (\(owner), 0, \(now)) ON CONFLICT DO NOTHING")
    }

    func sendWrite(on connection: Connection, at now: Timestamp) throws {
        try connection.send(
            """
            INSERT INTO settled_batch (owner, number, settled_at) VALUES (\(owner), \(number), \(now))
                ON CONFLICT (owner) DO UPDATE SET number = excluded.number, settled_at = excluded.settled_at
            """
        )
    }

    /// Whether the number is committed. Waits for a commit that is still under way. Nil if there is no row.
    func isWritten(on connection: Connection) throws -> Bool? {
        try connection.fetchOne("SELECT number FROM settled_batch WHERE owner = \(owner) FOR UPDATE").map { $0.integer(at: 0) == number }
    }
}

extension PostgresStore {
    /// A process that pauses longer in mid-send has stopped: it is frozen, or its host has other troubles.
    private static let longestPauseInAFlight = Duration.seconds(5)

    /// Ends the transactions of a stalled siwatch: the server has heard their beginning and waits for the rest. They hold locks. No
    /// time-out of the server runs between two messages, and the host of a frozen process answers keepalives. Their process finds the
    /// connection lost, and does all of it again.
    func endStalledTransactions() async throws {
        try await writer.run { [address] connection in
            try connection.execute(
                """
                SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
                 WHERE a.usename = current_user AND a.datname = current_database() AND a.pid <> pg_backend_pid()
                   AND a.state = 'active' AND a.wait_event = 'ClientRead' AND a.query NOT ILIKE 'COPY%'
                   AND a.query_start < clock_timestamp() - \(Self.longestPauseInAFlight) * INTERVAL '1 millisecond'
                   AND EXISTS (SELECT 1 FROM pg_locks l JOIN (\(Schema.relations(of: address))) ON c.oid = l.relation
                                WHERE l.pid = a.pid AND l.granted)
                """
            )
        }
    }
}

/// The tail: the rows that all settlements share. A settlement writes them last, in one flight with the COMMIT, under one lock. It gives
/// out the ids of the change feed in the order of commits, so that a reader that follows by `id > :last_seen` misses none.
///
/// It is a row that only siwatch's own user may lock. Anybody who may connect to the database could hold an advisory lock.
enum SettlementLock {
    /// SQL: takes the lock of this schema. It gives one row, whether the lock's own row is there or not.
    static let lock: SQL = "SELECT COUNT(*) FROM (SELECT FROM schema_version FOR UPDATE) held"
}

extension Connection {
    /// Takes the lock for a transaction that asks for rows under it. A holder that stalls blocks the others for at most 5 seconds.
    package func lockSettlements() throws {
        try send("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        try send(SettlementLock.lock)
    }
}
