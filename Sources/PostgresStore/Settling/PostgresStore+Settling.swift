// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension PostgresStore: WorkStore {
    package func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettledBatch {
        let directory = self.directory.withLockedValue { $0 }
        return try await writer.run { connection in
            try SettlementTransaction(connection: connection, directory: directory, rules: rules, now: now).settle(settlements)
        }
    }
}
