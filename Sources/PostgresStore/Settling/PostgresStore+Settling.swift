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
        let batch = BatchNumber(
            owner: owner,
            number: batches.withLockedValue { number in
                number += 1
                return number
            }
        )
        do {
            return try await writer.provenTransaction { [hasBatchRow] connection in
                if !hasBatchRow.withLockedValue(\.self) {
                    try batch.makeRow(on: connection, at: now)
                    hasBatchRow.withLockedValue { $0 = true }
                }
                try connection.send("BEGIN ISOLATION LEVEL READ COMMITTED")
                // Write the number first. Its reader then waits until this transaction has ended, wherever it is. The row is this process's
                // own.
                try batch.sendWrite(on: connection, at: now)
                let batch = try SettlementTransaction(on: connection, directory: directory, rules: rules, at: now).send(settlements)
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
