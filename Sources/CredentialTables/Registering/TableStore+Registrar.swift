// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    /// Registers the configured apps.
    ///
    /// - Throws: `StoreOpenError` if a client would move to another app.
    package func register(_ apps: [AppClients]) throws {
        let known = directory.withLockedValue { $0 }
        let registered = try blockingTransaction { connection in
            var directory = known
            try directory.register(apps, on: connection)
            return directory
        }
        directory.withLockedValue { $0 = registered }
        try tookIn(apps)
    }

    /// Throws the error that `register` would throw, and changes nothing.
    package func check(_ apps: [AppClients]) throws(StoreOpenError) {
        try directory.withLockedValue { $0 }.check(apps)
    }

    /// Reads the apps and clients that the tables hold.
    package func loadDirectory() throws {
        let stored = try blockingQuery { try ClientDirectory($0) }
        directory.withLockedValue { $0 = stored }
    }

    /// A random key that the database keeps sealed. siwatch makes it once.
    ///
    /// - Parameter make: seals a new key if there is none yet.
    package func sealedSecret(named name: String, make: @Sendable () throws -> [UInt8]) throws -> [UInt8] {
        try blockingTransaction { connection in
            // When two replicas make a key at the same time, the second takes the key of the first.
            try connection.lockSettlements()
            if let known = try connection.fetchOne("SELECT sealed FROM secret WHERE name = $1", name) { return known.bytes(at: 0) }
            let sealed = try make()
            try connection.execute("INSERT INTO secret (name, sealed) VALUES ($1, $2)", name, sealed)
            return sealed
        }
    }

    /// The sealed key of that name; nil if there is none yet.
    package func sealedSecret(named name: String) throws -> [UInt8]? {
        try blockingQuery { try $0.fetchOne("SELECT sealed FROM secret WHERE name = $1", name)?.bytes(at: 0) }
    }

    package func signingKeys() async throws -> [SigningKeyRecord] {
        try await query { connection in
            try connection.fetchAll("SELECT kid, jwk, first_seen_at, last_seen_at FROM signing_key ORDER BY kid").map { row in
                SigningKeyRecord(
                    keyID: row.text(at: 0) ?? "",
                    jwk: row.text(at: 1) ?? "",
                    firstSeenAt: Timestamp(milliseconds: row.integer(at: 2)),
                    lastSeenAt: Timestamp(milliseconds: row.integer(at: 3))
                )
            }
        }
    }

    package func remember(_ keys: [SigningKeyRecord], fetchedAt: Timestamp) async throws {
        try await transaction { connection in
            // The order makes replicas with the same keys wait for each other instead of deadlocking.
            var new = try keys.sorted { $0.keyID < $1.keyID }.filter { key in
                let isNew =
                    try connection.change(
                        "INSERT INTO signing_key (kid, jwk, first_seen_at, last_seen_at) VALUES ($1, $2, $3, $4) ON CONFLICT (kid) DO NOTHING",
                        key.keyID,
                        key.jwk,
                        key.firstSeenAt,
                        key.lastSeenAt
                    ) > 0
                if !isNew {
                    try connection.execute(
                        "UPDATE signing_key SET jwk = $2, last_seen_at = $3 WHERE kid = $1",
                        key.keyID,
                        key.jwk,
                        key.lastSeenAt
                    )
                }
                return isNew
            }.map(\.keyID)
            // A notification's row does not name the key that it waits for. Another look at all waiting rows costs little.
            if !new.isEmpty { try connection.releaseNotifications() }
            if connection.dialect == .postgres {
                // Another replica may have known a key first, while this one quarantined notifications that the key signed.
                new += try connection.fetchAll(
                    """
                    SELECT DISTINCT detail FROM notification_quarantine
                     WHERE reason = 'unknown_key' AND \(connection.dialect.isOne("detail", ofTexts: "$1"))
                    """,
                    try JSONText.encode(keys.map(\.keyID))
                ).map { $0.text(at: 0) ?? "" }
            }
            if !new.isEmpty { try QuarantineRow.release(unknownKeys: new, on: connection) }
        }
        await notificationsWereReleased()
    }
}

/// Breakers outside of settlements.
extension TableStore {
    /// Makes the breakers forget the canaries and clients that the configuration does not name any more.
    package func keepInBreakers(_ apps: [AppClients], under rules: SettlementRules, at now: Timestamp) async throws {
        let directory = self.directory.withLockedValue { $0 }
        let known = apps.compactMap { app in directory.apps[app.name].map { (id: $0.id, app: app) } }.sorted { $0.id < $1.id }
        try await transaction { connection in
            for (id, app) in known {
                try BreakerRow.change(id, at: now, on: connection) {
                    $0.keep(canaries: rules.canaries[app.name] ?? [], clients: Set(app.clientIDs), at: now)
                }
            }
        }
    }

    /// Makes the breakers forget blamed clients without a token left to check, because no good answer about them can come.
    ///
    /// - Returns: whether there were any.
    package func forgetDryClients(at now: Timestamp) async throws -> Bool {
        let directory = self.directory.withLockedValue { $0 }
        let blamed = try await query { connection in
            try connection.fetchAll("SELECT state FROM breaker WHERE state IS NOT NULL").flatMap { row in
                BreakerRow.read(row.text(at: 0))?.breaker(at: now).blamedClients.compactMap { directory.clients[$0] } ?? []
            }
        }
        guard !blamed.isEmpty else { return false }
        return try await transaction { connection in
            let dry = try blamed.filter { client in
                try !connection.exists("SELECT 1 FROM credential WHERE client = $1 AND due_at IS NOT NULL", client.id)
            }
            for client in dry.sorted(by: { $0.app.id < $1.app.id }) {
                try BreakerRow.change(client.app.id, at: now, on: connection) { $0.forget(client: client.clientID, at: now) }
            }
            return !dry.isEmpty
        }
    }
}
