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
    private var quarantine: QuarantineRing
    private var transitions: [StateTransition] = []
    private var removed: [Queue: Int] = [:]
    private var counts: [CountKey: Int] = [:]
    private var erasedToken = false

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
            }
        }
        if try cache.save(in: db) { erasedToken = true }
        let evicted = try quarantine.save()
        try saveCounts()
        return (SettledBatch(results: results, transitions: transitions, evicted: evicted), erasedToken)
    }

    // MARK: Notifications

    private mutating func settle(_ work: ClaimedNotification, _ verdict: NotificationVerdict) throws -> Settled {
        switch verdict {
        case .postponed(let until):
            return try postpone(.notification, work.id, work.claim, until: until)
        case .rejected(let reason, let detail):
            guard try isHeld(.notification, work.id, work.claim) else { return .superseded }
            try quarantine.add(notification: work.id, payloadSize: work.payload.count, reason: reason, detail: detail, at: now)
            try remove(.notification, work.id)
            return .quarantined(reason)
        case .verified(let notification):
            // A client that no app names any more: the verifier knows the configuration, so this is a row of a former life.
            guard let client = directory.clients[notification.clientID] else {
                return try postpone(.notification, work.id, work.claim, until: now.advanced(by: SettlementRules.unknownClientRetry))
            }
            if try awaitsNewerGrant(notification, of: client.app, receivedAt: work.receivedAt) {
                return try postpone(.notification, work.id, work.claim, until: now.advanced(by: rules.pollInterval))
            }
            guard try isHeld(.notification, work.id, work.claim) else { return .superseded }
            let outcome = try apply(notification, of: client)
            let logged = try log(work, notification, app: client.app.name, outcome: outcome)
            try remove(.notification, work.id)
            return .notification(logged)
        }
    }

    /// An event is judged against the newest grant known, one that still waits in its queue included: a user who signed in again is
    /// never reported revoked in between.
    private func awaitsNewerGrant(
        _ notification: VerifiedNotification,
        of app: ClientDirectory.App,
        receivedAt: Timestamp
    ) throws -> Bool {
        switch notification.event.kind {
        case .consentRevoked, .accountDeleted: break
        case .emailEnabled, .emailDisabled, .unknown: return false
        }
        // A moment that has yet to come is from a clock that has since been set back.
        guard let start = [receivedAt, rules.startedAt].filter({ $0 <= now }).max(),
            now < start.advanced(by: SettlementRules.longestWaitForGrant)
        else { return false }
        return try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM grant_queue g JOIN client c ON c.client_id = g.client_id
                                    WHERE g.user_id = ? AND g.granted_at >= ? AND c.app = ?)
                    """
            ),
            arguments: [notification.userID, notification.event.occurredAt.milliseconds, app.id]
        ) ?? false
    }

    private mutating func apply(
        _ notification: VerifiedNotification,
        of client: ClientDirectory.Client
    ) throws -> NotificationLogOutcome {
        let event = notification.event
        if event.kind == .unknown { return .unknownType }
        let key = RegisterCache.Key(app: client.app, userID: notification.userID)
        return try withUser(key, .notification, at: event.occurredAt, tokenID: notification.tokenID) { user in
            let before = user.registers
            user.registers.apply(event)
            if user.rows[client.id] == nil { user.rows[client.id] = CredentialRow() }
            return user.registers == before || user.isOutdated(event) ? .stale : .applied
        }
    }

    private func log(
        _ work: ClaimedNotification,
        _ notification: VerifiedNotification,
        app: String,
        outcome: NotificationLogOutcome
    ) throws -> NotificationLogOutcome {
        let isFirst = try db.changed(
            cached: """
                INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome)
                SELECT ?, ?, ?, ?, ?, ?, payload, received_at, ?, ? FROM notification_queue WHERE id = ?
                    ON CONFLICT (user_id, app, type, event_time) WHERE outcome <> 'duplicate' DO NOTHING
                """,
            [
                app, notification.tokenID, notification.clientID, notification.userID, notification.type,
                notification.event.occurredAt.milliseconds, now.milliseconds, outcome.rawValue, work.id,
            ]
        )
        if isFirst { return outcome }
        try db.execute(
            cached: """
                INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, received_at, settled_at, outcome)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'duplicate')
                """,
            [
                app, notification.tokenID, notification.clientID, notification.userID, notification.type,
                notification.event.occurredAt.milliseconds, work.receivedAt.milliseconds, now.milliseconds,
            ]
        )
        return .duplicate
    }

    // MARK: Grants

    private mutating func settle(_ work: ClaimedGrant, _ verdict: GrantVerdict) throws -> Settled {
        switch verdict {
        case .accepted(let grant, let credential):
            guard let client = directory.clients[credential.clientID] else {
                return try settle(work, .unknownClient)
            }
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            let outcome = try apply(grant, credential.userID, of: client)
            return try log(work, outcome)
        case .inFuture:
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            return try log(work, .inFuture)
        case .rejected(let reason):
            guard try isHeld(.grant, work.id, work.claim) else { return .superseded }
            return try log(work, .rejected, reason)
        case .unknownClient:
            if try isUnknownForTooLong(work) { return try settle(work, .rejected(.unknownClientExpired)) }
            return try postpone(.grant, work.id, work.claim, until: now.advanced(by: SettlementRules.unknownClientRetry))
        }
    }

    private mutating func apply(_ grant: Grant, _ userID: String, of client: ClientDirectory.Client) throws -> GrantLogOutcome {
        let key = RegisterCache.Key(app: client.app, userID: userID)
        let id = CredentialID(clientID: client.clientID, userID: userID)
        return try withUser(key, .grant, at: grant.grantedAt) { [rules, now] user in
            let registersBefore = user.registers
            let before = user.rows[client.id]
            var row = before ?? CredentialRow()
            user.registers.apply(grant)
            row.credential.apply(grant)
            if row.credential.token?.key != before?.credential.token?.key {
                // A new token: whoever asks about the old one has lost the claim, and may still be answered until its lease ends.
                let answeredAt = row.claimedBy == nil ? row.answeredAt : latest(row.answeredAt, row.dueAt)
                row.dueAt = rules.policy.firstCheck(grantedAt: grant.grantedAt, answeredAt: answeredAt, of: id, now: now)
                row.failures = 0
                row.attempts = 0
                row.claimedBy = nil
            }
            user.rows[client.id] = row
            if row.credential != before?.credential || user.registers != registersBefore { return .applied }
            let isSame =
                row.credential.grantedAt == grant.grantedAt && (grant.token == nil || grant.token?.key == row.credential.token?.key)
            return isSame ? .duplicate : .stale
        }
    }

    private func isUnknownForTooLong(_ work: ClaimedGrant) throws -> Bool {
        guard let clientID = work.content?.credential.clientID else { return false }
        let firstSeen = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    INSERT INTO unknown_client (client_id, first_seen_at) VALUES (?, ?)
                        ON CONFLICT (client_id) DO UPDATE SET first_seen_at = MIN(first_seen_at, excluded.first_seen_at)
                    RETURNING first_seen_at
                    """
            ),
            arguments: [clientID, now.milliseconds]
        ).map(Timestamp.init(milliseconds:))
        // A backlog that is older than its client's first sight counts from there, a new row from its own time.
        let since = max(firstSeen ?? now, min(work.grantedAt, now))
        return since.duration(to: now) > SettlementRules.unknownClientExpiry
    }

    private mutating func log(_ work: ClaimedGrant, _ outcome: GrantLogOutcome, _ reason: GrantRejection? = nil) throws -> Settled {
        // From the row itself: what the backend wrote may not be text that Swift can hold.
        try db.execute(
            cached: """
                INSERT INTO grant_log (client_id, user_id, granted_at, settled_at, outcome, reason)
                SELECT client_id, user_id, granted_at, ?, ?, ? FROM grant_queue WHERE id = ?
                """,
            [now.milliseconds, outcome.rawValue, reason?.rawValue, work.id]
        )
        try remove(.grant, work.id)
        // What could not be read may have been a token.
        if work.content.map({ $0.refreshToken != nil }) ?? true { erasedToken = true }
        return .grant(outcome, reason)
    }

    // MARK: Refreshes

    private mutating func settle(_ work: DueCredential, _ verdict: RefreshVerdict) throws -> Settled {
        guard let client = directory.clients[work.id.clientID] else { return .superseded }
        let key = RegisterCache.Key(app: client.app, userID: work.id.userID)
        return try withUser(key, .refresh, at: verdict.fact?.requestedAt ?? now) { user in
            guard var row = user.rows[client.id], row.claimedBy == work.claim.owner, row.attempts == work.claim.attempts,
                row.credential.token?.key == work.token
            else { return .superseded }
            if let fact = verdict.fact { row.credential.apply(fact) }
            row.answeredAt = latest(row.answeredAt, verdict.answeredAt)
            row.failures = verdict.answeredAt == nil ? row.failures + 1 : 0
            row.dueAt = verdict.nextCheck
            row.attempts = 0
            row.claimedBy = nil
            user.rows[client.id] = row
            return .refreshed
        }
    }

    // MARK: What follows from a fact

    /// Applies one fact to a user and announces what it changed, at every client of the app.
    private mutating func withUser<Result>(
        _ key: RegisterCache.Key,
        _ source: ChangeSource,
        at time: Timestamp,
        tokenID: String? = nil,
        _ body: (inout RegisterCache.User) throws -> Result
    ) throws -> Result {
        var published: [(client: Int64, old: PublishedCredential?, new: PublishedCredential)] = []
        let result = try cache.withUser(key, in: db) { user in
            let result = try body(&user)
            for clientID in user.rows.keys.sorted() {
                user.rows[clientID]!.credential.eraseUnusableToken(under: user.registers)
                if user.rows[clientID]!.credential.tokenToCheck(under: user.registers) == nil { user.rows[clientID]!.dueAt = nil }
                let old = user.published[clientID]
                let new = PublishedCredential(user.rows[clientID]!.credential, under: user.registers)
                user.published[clientID] = new
                published.append((clientID, old, new))
            }
            return result
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
        for (queue, count) in removed { try db.add(count, to: queue.removedCounter) }
    }

    // MARK: Queue rows

    private func isHeld(_ queue: Queue, _ id: Int64, _ claim: Claim) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: "SELECT EXISTS (SELECT 1 FROM \(queue.rawValue) WHERE id = ? AND claimed_by = ? AND attempts = ?)"
            ),
            arguments: [id, claim.owner, claim.attempts]
        ) ?? false
    }

    private mutating func remove(_ queue: Queue, _ id: Int64) throws {
        try db.execute(cached: "DELETE FROM \(queue.rawValue) WHERE id = ?", [id])
        removed[queue, default: 0] += 1
    }

    private func postpone(_ queue: Queue, _ id: Int64, _ claim: Claim, until: Timestamp) throws -> Settled {
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

extension RegisterCache.User {
    /// Whether a sign-in at least as new stands above an event at every client of the app.
    fileprivate func isOutdated(_ event: Event) -> Bool {
        switch event.kind {
        case .consentRevoked, .accountDeleted:
            let grants = rows.values.compactMap(\.credential.grantedAt)
            return !grants.isEmpty && grants.allSatisfy { $0 >= event.occurredAt }
        case .emailEnabled, .emailDisabled, .unknown:
            return false
        }
    }
}

extension Database {
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
