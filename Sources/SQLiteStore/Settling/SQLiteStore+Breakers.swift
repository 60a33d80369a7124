// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB
import NIOConcurrencyHelpers

extension SQLiteStore {
    /// Lets the breakers forget the canaries and clients that the configuration names no more. For the holder of the lock.
    package func keepInBreakers(_ apps: [AppClients], under rules: SettlementRules, at now: Timestamp) async throws {
        let directory = self.directory.withLockedValue { $0 }
        try await write { db in
            for app in apps {
                guard let known = directory.apps[app.name] else { continue }
                try BreakerTable.change(known.id, at: now, in: db) {
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
        let dry = try await read { db in
            let blamed = try Row.fetchAll(db.cachedStatement(sql: "SELECT app, state FROM breaker")).flatMap { row in
                BreakerTable.read(row[1]).breaker(at: now).blamedClients.compactMap { directory.clients[$0] }
            }
            return try blamed.filter { client in
                try Int.fetchOne(
                    db.cachedStatement(
                        sql: "SELECT 1 FROM credential WHERE client = ? AND due_at IS NOT NULL LIMIT 1"
                    ),
                    arguments: [client.id]
                ) == nil
            }
        }
        guard !dry.isEmpty else { return false }
        try await write { db in
            for client in dry {
                try BreakerTable.change(client.app.id, at: now, in: db) { $0.forget(client: client.clientID, at: now) }
            }
        }
        return true
    }
}
