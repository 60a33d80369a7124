// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension PostgresStore: WorkStore {
    /// Who inserts locks nothing that a settlement locks.
    package var holdsBackendsUp: Bool { false }

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
        } catch is OutdatedDirectory {
            let stored = try await reader.run(ClientDirectory.init)
            self.directory.withLockedValue { $0.take([], as: stored) }
            throw StoreError.retry("another replica has taken clients in")
        }
    }
}
