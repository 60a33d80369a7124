// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    package func register(_ apps: [AppClients]) throws {
        let known = directory.withLockedValue { $0 }
        let registered = try blockingTransaction { connection in
            var directory = known
            try directory.register(apps, on: connection)
            return directory
        }
        know(registered)
        try countAuthorized()
        try tookIn(apps)
    }

    /// Counts the authorized credentials by itself, before a settlement asks for their number. Nobody settles for an app before this.
    private func countAuthorized() throws {
        let apps = directory.withLockedValue { $0.apps.values.map(\.id) }
        guard decisions.mustCount(apps) else { return }
        let counts = try blockingQuery { connection in
            try connection.fetchAll("SELECT app, COUNT(*) FROM credential WHERE state = 'authorized' GROUP BY app").map {
                ($0.integer(at: 0), $0.int(at: 1))
            }
        }
        decisions.beginCounts(of: apps, with: Dictionary(counts) { first, _ in first })
    }

    package func check(_ apps: [AppClients]) throws(StoreOpenError) { try directory.withLockedValue { $0 }.check(apps) }

    package func loadDirectory() throws {
        know(try blockingQuery { try ClientDirectory($0) })
    }

    private func know(_ registered: ClientDirectory) {
        directory.withLockedValue { $0 = registered }
        decisions.register(Dictionary(registered.apps.values.map { ($0.id, $0.name) }) { first, _ in first })
    }

    package func sealedSecret(named name: String, make: @Sendable () throws -> [UInt8]) throws -> [UInt8] {
        try blockingTransaction { connection in
            // When two replicas make a key at the same time, the second takes the key of the first.
            try connection.lockSettlements()
            if let known = try connection.fetchOne("SELECT sealed FROM secret WHERE name = \(name)") { return known.bytes(at: 0) }
            // A new key would open no token.
            if try connection.exists("SELECT 1 FROM credential LIMIT 1") {
                throw StoreError.damaged(
                    "the row \(name) of the table secret is gone, and no sealed token opens without it; restore a backup"
                )
            }
            let sealed = try make()
            try connection.execute("INSERT INTO secret (name, sealed) VALUES (\(name), \(sealed))")
            return sealed
        }
    }

    package func sealedSecret(named name: String) throws -> [UInt8]? {
        try blockingQuery { try $0.fetchOne("SELECT sealed FROM secret WHERE name = \(name)")?.bytes(at: 0) }
    }

    package func signingKeys() async throws -> [SigningKeyRecord] {
        try await query { connection in
            try connection.fetchAll("SELECT kid, jwk, last_seen_at, proof FROM signing_key ORDER BY kid").map {
                SigningKeyRecord(keyID: $0[0], jwk: $0[1], lastSeenAt: $0[2], proof: $0[3])
            }
        }
    }

    package func remember(_ keys: [SigningKeyRecord], forgetting others: [SigningKeyRecord]) async throws {
        try await transaction { connection in
            // The order makes replicas with the same keys wait for each other instead of deadlocking.
            let changes = (others.map { (key: $0, isKept: false) } + keys.map { (key: $0, isKept: true) }).sorted {
                ($0.key.keyID, $0.isKept ? 1 : 0) < ($1.key.keyID, $1.isKept ? 1 : 0)
            }
            var hasNew = false
            for (key, isKept) in changes {
                guard isKept else {
                    try connection.execute("DELETE FROM signing_key WHERE kid = \(key.keyID) AND proof = \(key.proof)")
                    continue
                }
                if try !connection.exists("SELECT 1 FROM signing_key WHERE kid = \(key.keyID)") { hasNew = true }
                try connection.execute(
                    """
                    INSERT INTO signing_key (kid, jwk, last_seen_at, proof) VALUES (\(key.keyID), \(key.jwk), \(key.lastSeenAt), \(key.proof))
                        ON CONFLICT (kid) DO UPDATE SET jwk = excluded.jwk, last_seen_at = excluded.last_seen_at, proof = excluded.proof
                    """
                )
            }
            // A notification's row does not name the key that it waits for. Another look at all waiting rows costs little.
            if hasNew { try connection.releaseNotifications() }
            // The row of a key may have been there before: another replica's, or one that somebody planted.
            try QuarantineRow.release(.unknownKey, about: keys.map(\.keyID), on: connection)
        }
        await notificationsWereReleased()
    }
}

extension TableStore {
    package func adopt(_ apps: [AppClients], under rules: SettlementRules, at now: Timestamp) async throws {
        let directory = self.directory.withLockedValue { $0 }
        let known = apps.compactMap { app in directory.apps[app.name].map { (id: $0.id, app: app) } }.sorted { $0.id < $1.id }
        try await transaction { [decisions] connection in
            // First, because settlements lock themselves before the breakers.
            try QuarantineRow.release(.wrongAudience, about: apps.flatMap(\.clientIDs), on: connection)
            for (id, app) in known {
                try BreakerRow(connection: connection, decisions: decisions).change(id, at: now) {
                    $0.keep(canaries: rules.canaries[app.name] ?? [], clients: Set(app.clientIDs), at: now)
                }
            }
        }
        await notificationsWereReleased()
    }

    package func forgetDryCauses(at now: Timestamp) async throws -> Bool {
        let directory = self.directory.withLockedValue { $0 }
        let breakers = try await query { connection in
            try connection.fetchAll("SELECT state FROM breaker WHERE state IS NOT NULL").compactMap { row in
                RejectionBreaker(row: row.text(at: 0))?.breaker(at: now)
            }
        }
        let blamed = breakers.flatMap(\.blamedClients).compactMap { directory.clients[$0] }
        let rejected = breakers.flatMap(\.rejectedCanaries).compactMap { canary in
            directory.clients[canary.clientID].map { (client: $0, canary: canary) }
        }
        guard !blamed.isEmpty || !rejected.isEmpty else { return false }
        return try await transaction { [decisions] connection in
            let dry = try blamed.filter { client in
                try !connection.exists("SELECT 1 FROM credential WHERE client = \(client.id) AND due_at IS NOT NULL")
            }
            let lost = try rejected.filter { client, canary in
                try !connection.exists(
                    "SELECT 1 FROM credential WHERE user_id = \(canary.userID) AND client = \(client.id) AND sealed_token IS NOT NULL"
                )
            }
            // In the order in which settlements lock the rows.
            for app in Set(dry.map(\.app.id) + lost.map(\.client.app.id)).sorted() {
                try BreakerRow(connection: connection, decisions: decisions).change(app, at: now) { breaker in
                    for client in dry where client.app.id == app { breaker.forget(client: client.clientID, at: now) }
                    for (client, canary) in lost where client.app.id == app { breaker.forget(canary: canary, at: now) }
                }
            }
            return !dry.isEmpty || !lost.isEmpty
        }
    }
}
