// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import Foundation
internal import GRDB

/// One batch of settlements inside one transaction: facts move registers, changes are announced, evidence is kept, rows leave their queues.
struct SettlementTransaction {
    let db: Database
    let directory: ClientDirectory
    let rules: SettlementRules
    let now: Timestamp

    private var cache: RegisterCache
    var quarantine: QuarantineRing
    private var transitions: [StateTransition] = []
    private var removed: [Queue: Int] = [:]
    private var counts: [CountKey: Int] = [:]
    private var unverified: [Int64: Int] = [:]
    private var pending: [Int64: Int] = [:]
    var breakers: BreakerTable
    /// The clients of which Apple accepted a token, and when.
    var accepted: [Int64: Timestamp] = [:]
    /// Checks that Apple answered, and those that it did not.
    var checks = (answered: 0, failed: 0)
    var erasedToken = false

    private struct CountKey: Hashable {
        var app: Int64
        var state: CredentialState
    }

    init(db: Database, directory: ClientDirectory, rules: SettlementRules, now: Timestamp) {
        self.db = db
        self.directory = directory
        self.rules = rules
        self.now = now
        cache = RegisterCache(directory: directory)
        quarantine = QuarantineRing(db: db)
        breakers = BreakerTable(db: db, rules: rules, now: now)
    }

    /// - Returns: what was done, and whether a token was erased from the file: its log still holds it then.
    mutating func settle(_ settlements: [Settlement]) throws -> (batch: SettledBatch, erasedToken: Bool) {
        var results: [Settled] = []
        results.reserveCapacity(settlements.count)
        for settlement in settlements {
            switch settlement {
            case .notification(let work, let verdict): results.append(try settle(work, verdict))
            case .grant(let work, let verdict): results.append(try settle(work, verdict))
            case .refresh(let work, let verdict): results.append(try settle(work, verdict))
            case .admission(let work, let rejection): results.append(try admit(rejection, of: work))
            }
        }
        if try cache.save(in: db) { erasedToken = true }
        let evicted = try quarantine.save()
        try saveCounts()
        // Last, so that the rows of this batch are among those cleared.
        try breakers.save()
        return (
            SettledBatch(results: results, transitions: transitions, evicted: evicted, breakers: breakers.judged), erasedToken
        )
    }

    // MARK: What follows from a fact

    /// Applies one fact to a user and announces what it changed, at every client of the app.
    mutating func withUser<Result>(
        _ key: RegisterCache.Key,
        _ source: ChangeSource,
        at time: Timestamp,
        tokenID: String? = nil,
        _ body: (inout RegisterCache.User) throws -> Result
    ) throws -> Result {
        var published: [(client: Int64, old: PublishedCredential?, new: PublishedCredential)] = []
        var unverifiedChange = 0
        var pendingChange = 0
        var lost: [Int64] = []
        let result = try cache.withUser(key, in: db) { user in
            unverifiedChange = -user.unverified
            pendingChange = -user.pending
            let result = try body(&user)
            for clientID in user.rows.keys.sorted() {
                user.rows[clientID]!.credential.eraseUnusableToken(under: user.registers)
                if user.rows[clientID]!.credential.token?.sealed == nil {
                    user.rows[clientID]!.dueAt = nil
                    user.rows[clientID]!.isUnverified = false
                    user.rows[clientID]!.pending = nil
                    lost.append(clientID)
                }
                let old = user.published[clientID]
                let new = PublishedCredential(user.rows[clientID]!.credential, under: user.registers)
                user.published[clientID] = new
                published.append((clientID, old, new))
            }
            unverifiedChange += user.unverified
            pendingChange += user.pending
            return result
        }
        if unverifiedChange != 0 { unverified[key.app.id, default: 0] += unverifiedChange }
        if pendingChange != 0 { pending[key.app.id, default: 0] += pendingChange }
        if rules.isCanary(key.userID, of: key.app.name) {
            for client in lost.compactMap({ directory.clientsByID[$0] }) {
                try breakers.forget(canary: CredentialID(clientID: client.clientID, userID: key.userID), of: key.app)
            }
        }
        for (clientID, old, new) in published {
            count(key.app.id, from: old?.standing.state, to: new.standing.state)
            guard let client = directory.clientsByID[clientID] else { continue }
            for change in new.changes(since: old, at: time) {
                try announce(change, CredentialID(clientID: client.clientID, userID: key.userID), key.app, source, tokenID)
            }
        }
        return result
    }

    /// A credential as it stands in this transaction.
    mutating func row(of key: RegisterCache.Key, _ client: ClientDirectory.Client) throws -> CredentialRow? {
        try cache.withUser(key, in: db) { $0.rows[client.id] }
    }

    private mutating func announce(
        _ change: CredentialChange,
        _ credential: CredentialID,
        _ app: ClientDirectory.App,
        _ source: ChangeSource,
        _ tokenID: String?
    ) throws {
        let values: StatementArguments
        switch change {
        case .state(let from, let to, let reason, let occurredAt):
            values = ["state", from?.rawValue, to.rawValue, reason.rawValue, nil, nil, occurredAt.milliseconds]
            transitions.append(
                StateTransition(app: app.name, credential: credential, from: from, to: to, reason: reason, source: source)
            )
        case .email(let address, let forwarding, let occurredAt):
            values = ["email", nil, nil, nil, address?.text, forwarding?.rawValue, occurredAt.milliseconds]
        }
        try db.execute(
            cached: """
                INSERT INTO credential_change (app, client_id, user_id, source, notification_jti, recorded_at,
                                               kind, from_state, to_state, reason, email, email_forwarding, occurred_at)
                VALUES (?, ?, ?, ?, ?, ?,  ?, ?, ?, ?, ?, ?, ?)
                """,
            [app.name, credential.clientID, credential.userID, source.rawValue, tokenID, now.milliseconds] + values
        )
    }

    private mutating func count(_ app: Int64, from old: CredentialState?, to new: CredentialState) {
        guard old != new else { return }
        if let old { counts[CountKey(app: app, state: old), default: 0] -= 1 }
        counts[CountKey(app: app, state: new), default: 0] += 1
    }

    private func saveCounts() throws {
        for (key, change) in counts where change != 0 {
            try db.execute(
                cached: """
                    INSERT INTO credential_count (app, state, count) VALUES (?, ?, ?)
                        ON CONFLICT (app, state) DO UPDATE SET count = count + excluded.count
                    """,
                [key.app, key.state.rawValue, change]
            )
        }
        for (app, change) in unverified where change != 0 {
            try db.execute(cached: "UPDATE app SET unverified = unverified + ? WHERE id = ?", [change, app])
        }
        for (app, change) in pending where change != 0 {
            try db.execute(cached: "UPDATE app SET pending = pending + ? WHERE id = ?", [change, app])
        }
        for (client, time) in accepted {
            try db.execute(
                cached: "UPDATE client SET valid_at = ?1 WHERE id = ?2 AND (valid_at IS NULL OR valid_at < ?1)",
                [time.milliseconds, client]
            )
        }
        for (queue, count) in removed { try db.add(count, to: queue.removedCounter) }
        try save(checks.answered, CheckCounter.answered, CheckCounter.answeredAt)
        try save(checks.failed, CheckCounter.failed, CheckCounter.failedAt)
    }

    private func save(_ checks: Int, _ counter: String, _ time: String) throws {
        guard checks > 0 else { return }
        try db.add(checks, to: counter)
        try db.set(time, to: now.milliseconds)
    }

    // MARK: Queue rows

    func isHeld(_ queue: Queue, _ id: Int64, _ claim: Claim) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: "SELECT EXISTS (SELECT 1 FROM \(queue.rawValue) WHERE id = ? AND claimed_by = ? AND attempts = ?)"
            ),
            arguments: [id, claim.owner, claim.attempts]
        ) ?? false
    }

    mutating func remove(_ queue: Queue, _ id: Int64) throws {
        try db.execute(cached: "DELETE FROM \(queue.rawValue) WHERE id = ?", [id])
        removed[queue, default: 0] += 1
    }

    func postpone(_ queue: Queue, _ id: Int64, _ claim: Claim, until: Timestamp) throws -> Settled {
        let isHeld = try db.changed(
            cached: """
                UPDATE \(queue.rawValue) SET due_at = ?, attempts = 0, claimed_by = NULL
                 WHERE id = ? AND claimed_by = ? AND attempts = ?
                """,
            [until.milliseconds, id, claim.owner, claim.attempts]
        )
        return isHeld ? .postponed : .superseded
    }
}

extension Database {
    func set(_ counter: String, to value: Int64) throws {
        try execute(
            cached: "INSERT INTO counter (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            [counter, value]
        )
    }

    func add(_ amount: Int, to counter: String) throws {
        try execute(
            cached: """
                INSERT INTO counter (name, value) VALUES (?, ?)
                    ON CONFLICT (name) DO UPDATE SET value = value + excluded.value
                """,
            [counter, amount]
        )
    }
}
