// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

extension PostgresStore {
    /// Who inserts locks nothing that a settlement locks.
    package var holdsBackendsUp: Bool { false }

    /// A server that is frozen is given up, and then it is looked for a while what has become of a commit.
    package var longestSilence: Duration { Connection.longestSilence + .seconds(45) }

    package func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettledBatch {
        guard !settlements.isEmpty else { return SettledBatch() }
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
                return try SettlementTransaction(connection: connection, directory: directory, rules: rules, batch: batch, now: now)
                    .send(settlements)
            } isCommitted: { connection in
                try batch.isWritten(on: connection)
            }
        } catch StoreError.retry(let reason) {
            // Somebody holds what this needs: for no longer, where it is one of us who has stopped.
            try await endStalledTransactions()
            throw StoreError.retry(reason)
        } catch is OutdatedDirectory {
            // Another replica has taken clients in; or the server has lost what this one had, in a failover or a restore.
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
