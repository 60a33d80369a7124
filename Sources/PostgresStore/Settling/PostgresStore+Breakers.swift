// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension PostgresStore {
    /// Lets the breakers forget the canaries and clients that the configuration names no more.
    package func keepInBreakers(_ apps: [AppClients], under rules: SettlementRules, at now: Timestamp) async throws {
        let directory = self.directory.withLockedValue { $0 }
        let known = apps.compactMap { app in directory.apps[app.name].map { (id: $0.id, app: app) } }.sorted { $0.id < $1.id }
        try await writer.transaction { connection in
            for (id, app) in known {
                try BreakerTable.change(id, at: now, on: connection) {
                    $0.keep(canaries: rules.canaries[app.name] ?? [], clients: Set(app.clientIDs), at: now)
                }
            }
        }
    }

    /// Lets the breakers forget blamed clients of which no token is left to ask about: no good answer could ever come.
    ///
    /// - Returns: whether there were any.
    package func forgetDryClients(at now: Timestamp) async throws -> Bool {
        let directory = self.directory.withLockedValue { $0 }
        let blamed = try await reader.run { connection in
            try connection.rows("SELECT app, state FROM breaker WHERE state IS NOT NULL").map { row in
                BreakerTable.read(row)?.breaker(at: now).blamedClients ?? []
            }.joined().compactMap { directory.clients[$0] }
        }
        guard !blamed.isEmpty else { return false }
        return try await writer.transaction { connection in
            let dry = try blamed.filter { client in
                try connection.rows("SELECT 1 FROM credential WHERE client = $1 AND due_at IS NOT NULL LIMIT 1", client.id).count == 0
            }
            for client in dry.sorted(by: { $0.app.id < $1.app.id }) {
                try BreakerTable.change(client.app.id, at: now, on: connection) { $0.forget(client: client.clientID, at: now) }
            }
            return !dry.isEmpty
        }
    }
}
