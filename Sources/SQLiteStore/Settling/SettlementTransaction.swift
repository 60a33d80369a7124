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

    let statements: Statements
    private var cache: RegisterCache
    var quarantine: QuarantineRing
    private var transitions: [StateTransition] = []
    private var removed: [Queue: Int] = [:]
    private var counts: [CountKey: Int] = [:]
    /// By app.
    private var tallies: [Int64: RegisterCache.Tally] = [:]
    /// The apps of which a new token came.
    var replenished: Set<String> = []
    var breakers: BreakerTable
    /// The clients of which Apple accepted a token, and when it was asked, by its clock.
    var accepted: [Int64: Timestamp] = [:]
    /// Checks that Apple answered, and those that it did not.
    var checks = (answered: 0, failed: 0)
    var erasedToken = false
    let waitingGrants: WaitingGrants

    private struct CountKey: Hashable {
        var app: Int64
        var state: CredentialState
    }

    init(db: Database, directory: ClientDirectory, rules: SettlementRules, now: Timestamp) throws {
        self.db = db
        self.directory = directory
        self.rules = rules
        self.now = now
        statements = try Statements(db)
        waitingGrants = try WaitingGrants(in: db)
        cache = try RegisterCache(directory: directory, in: db)
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
        if try cache.save() { erasedToken = true }
        let evicted = try quarantine.save()
        try saveCounts()
        // Last, so that the rows of this batch are among those cleared.
        try breakers.save()
        return (
            SettledBatch(
                results: results,
                transitions: transitions,
                evicted: evicted,
                breakers: breakers.judged,
                replenished: replenished
            ),
            erasedToken
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
        let (result, changes, tally) = try cache.withUser(key) { user in
            let before = user.tally
            let result = try body(&user)
            let changes = user.publish()
            return (result, changes, user.tally - before)
        }
        if tally != RegisterCache.Tally() { tallies[key.app.id, default: RegisterCache.Tally()] += tally }
        if rules.isCanary(key.userID, of: key.app.name) { try forgetLostCanaries(key) }
        for (clientID, old, new) in changes {
            count(key.app.id, from: old?.standing.state, to: new.standing.state)
            guard let client = directory.clientsByID[clientID] else { continue }
            for change in new.changes(since: old, at: time) {
                try announce(change, CredentialID(clientID: client.clientID, userID: key.userID), key.app, source, tokenID)
            }
        }
        return result
    }

    /// A canary whose token is gone is not asked about any more.
    private mutating func forgetLostCanaries(_ key: RegisterCache.Key) throws {
        let lost = try cache.withUser(key) { user in user.holdings.filter { $0.row.credential.token?.sealed == nil }.map(\.client) }
        for client in lost.compactMap({ directory.clientsByID[$0] }) {
            try breakers.forget(canary: CredentialID(clientID: client.clientID, userID: key.userID), of: key.app)
        }
    }

    /// A credential as it stands in this transaction.
    mutating func row(of key: RegisterCache.Key, _ client: ClientDirectory.Client) throws -> CredentialRow? {
        try cache.withUser(key) { $0[client.id] }
    }

    private mutating func announce(
        _ change: CredentialChange,
        _ credential: CredentialID,
        _ app: ClientDirectory.App,
        _ source: ChangeSource,
        _ tokenID: String?
    ) throws {
        let (app, client, user) = (app.name, credential.clientID, credential.userID)
        switch change {
        case .state(let from, let to, let reason, let occurredAt):
            try statements.announceState.run(
                app,
                client,
                user,
                source.rawValue,
                tokenID,
                now,
                from?.rawValue,
                to.rawValue,
                reason.rawValue,
                occurredAt
            )
            transitions.append(StateTransition(app: app, credential: credential, from: from, to: to, reason: reason, source: source))
        case .email(let address, let forwarding, let occurredAt):
            try statements.announceEmail.run(
                app,
                client,
                user,
                source.rawValue,
                tokenID,
                now,
                address?.text,
                forwarding?.rawValue,
                occurredAt
            )
        }
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
        for (app, change) in tallies {
            try db.execute(
                cached: """
                    UPDATE app
                       SET unverified = unverified + ?, pending = pending + ?, never_accepted = never_accepted + ?,
                           foreign_tokens = foreign_tokens + ?
                     WHERE id = ?
                    """,
                [change.unverified, change.pending, change.neverAccepted, change.foreign, app]
            )
        }
        for (client, time) in accepted {
            try db.execute(
                cached: "UPDATE client SET valid_at = ?1 WHERE id = ?2 AND (valid_at IS NULL OR valid_at < ?1 OR valid_at > ?3)",
                [time.milliseconds, client, now.milliseconds]
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
        try statements.isHeld[queue]!.first(id, claim.owner, claim.attempts) { _ in true } ?? false
    }

    mutating func remove(_ queue: Queue, _ id: Int64) throws {
        try statements.remove[queue]!.run(id)
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

extension SettlementTransaction {
    /// What runs for each settlement.
    struct Statements {
        let isHeld, remove: [Queue: PreparedStatement]
        let announceState, announceEmail: PreparedStatement
        let logNotification, logDuplicate: PreparedStatement

        init(_ db: Database) throws {
            func each(_ sql: (Queue) -> String) throws -> [Queue: PreparedStatement] {
                try Dictionary(uniqueKeysWithValues: Queue.allCases.map { ($0, try PreparedStatement(sql($0), in: db)) })
            }
            isHeld = try each { "SELECT 1 FROM \($0.rawValue) WHERE id = ? AND claimed_by = ? AND attempts = ?" }
            remove = try each { "DELETE FROM \($0.rawValue) WHERE id = ?" }
            announceState = try PreparedStatement(
                """
                INSERT INTO credential_change (app, client_id, user_id, source, notification_jti, recorded_at,
                                               kind, from_state, to_state, reason, occurred_at)
                VALUES (?, ?, ?, ?, ?, ?,  'state', ?, ?, ?, ?)
                """,
                in: db
            )
            announceEmail = try PreparedStatement(
                """
                INSERT INTO credential_change (app, client_id, user_id, source, notification_jti, recorded_at,
                                               kind, email, email_forwarding, occurred_at)
                VALUES (?, ?, ?, ?, ?, ?,  'email', ?, ?, ?)
                """,
                in: db
            )
            logNotification = try PreparedStatement(
                """
                INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome)
                SELECT ?, ?, ?, ?, ?, ?, payload, received_at, ?, ? FROM notification_queue WHERE id = ?
                    ON CONFLICT (event_time, user_id, app, type) WHERE outcome <> 'duplicate' DO NOTHING
                """,
                in: db
            )
            logDuplicate = try PreparedStatement(
                """
                INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, received_at, settled_at, outcome)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'duplicate')
                """,
                in: db
            )
        }
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
