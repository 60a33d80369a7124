// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
import NIOConcurrencyHelpers

extension SQLiteStore {
    /// SQLite has one lock, and no queue for it. A waiting writer looks again after up to 100 ms.
    package var holdsBackendsUp: Bool { true }

    /// A claim waits for the lock, and a commit for the disk.
    package var longestSilence: Duration { .seconds(10) }

    package func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettlementChanges {
        let directory = self.directory.withLockedValue { $0 }
        let (batch, hasErased) = try await write { db in
            let connection = SQLiteConnection(db)
            let (result, hasErased) = try SettlementTransaction(on: connection, directory: directory, rules: rules, at: now).send(
                settlements
            )
            return (try result(), hasErased)
        }
        if hasErased { checkpointer?.mustTruncate() }
        // If a checkpoint must wait, the commit stands all the same.
        try? await checkpointer?.checkpointIfNeeded()
        return batch
    }
}
