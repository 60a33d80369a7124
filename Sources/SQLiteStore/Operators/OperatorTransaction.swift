// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import GRDB

/// One request of an operator inside one transaction.
struct OperatorTransaction {
    let db: Database
    let rules: RecheckRules
    let now: Timestamp

    func handle(_ row: Row) throws -> HandledRequest {
        let id: Int64 = row[0]
        let request = JSONText.decode(row[1], as: OperatorRequest.self)
        if row.hasValue(at: 3) {
            let position = JSONText.decode(row[4], as: AppRecheck.Position.self)
            try save(id, position: try position.flatMap { try AppRecheck(db: db, rules: rules).goOn(from: $0) })
            return HandledRequest(request: request, answer: nil)
        }
        let requestedAt = Timestamp(milliseconds: row[2])
        let (answer, position) = try answer(request, requestedAt: requestedAt)
        try db.execute(
            cached: "UPDATE operator_request SET answer = ?, answered_at = ?, position = ? WHERE id = ?",
            [try JSONText.encode(answer), now.milliseconds, try position.map(JSONText.encode), id]
        )
        return HandledRequest(request: request, answer: answer)
    }

    private func save(_ id: Int64, position: AppRecheck.Position?) throws {
        try db.execute(
            cached: "UPDATE operator_request SET position = ? WHERE id = ?",
            [try position.map(JSONText.encode), id]
        )
    }

    private func answer(_ request: OperatorRequest?, requestedAt: Timestamp) throws -> (OperatorAnswer, AppRecheck.Position?) {
        guard let request else { return (.notUnderstood, nil) }
        guard now <= requestedAt.advanced(by: OperatorRequest.expiry) else { return (.expired, nil) }
        var answer = OperatorAnswer.notUnderstood
        var position: AppRecheck.Position?
        do {
            try db.inSavepoint {
                (answer, position) = try carryOut(request)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return (.refused("\(StoreError(error))"), nil)
        }
        return (answer, position)
    }

    private func carryOut(_ request: OperatorRequest) throws -> (OperatorAnswer, AppRecheck.Position?) {
        switch request {
        case .pause(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            let since = app.pausedAt ?? now
            try db.execute(cached: "UPDATE app SET paused_at = ? WHERE id = ?", [since.milliseconds, app.id])
            return (.paused(since: since), nil)
        case .resume(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            try db.execute(cached: "UPDATE app SET paused_at = NULL WHERE id = ?", [app.id])
            return (.resumed(wasPaused: app.pausedAt != nil), nil)
        case .confirmRejections(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            return (try confirmRejections(of: app.id), nil)
        case .resetBreaker(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            var breaker = try BreakerTable.load(app.id, at: now, in: db)
            let wasOpen = breaker.isOpen
            breaker.reset()
            try BreakerTable.save(breaker, of: app.id, in: db)
            return (.breakerReset(wasOpen: wasOpen), nil)
        case .recheckUser(let userID):
            return (try recheck(userID), nil)
        case .recheckApp(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            let credentials = try Int.fetchOne(
                db.cachedStatement(sql: "SELECT COALESCE(SUM(count), 0) FROM credential_count WHERE app = ?"),
                arguments: [app.id]
            )
            let answer = OperatorAnswer.recheckingApp(
                credentials: credentials ?? 0,
                requestsPerSecond: rules.requestsPerSecond,
                isPaused: app.pausedAt != nil
            )
            return (answer, try AppRecheck(db: db, rules: rules).begin(app.id, credentials: credentials ?? 0, at: now))
        case .retryQuarantined(let ids, let receivedAt):
            return (try empty(ids) { try retry($0, receivedAt: receivedAt) }, nil)
        case .dropQuarantined(let ids):
            return (try empty(ids) { try QuarantineRing.remove($0, in: db) }, nil)
        }
    }

    // MARK: Apps

    private func app(_ name: String) throws -> (id: Int64, pausedAt: Timestamp?)? {
        try Row.fetchOne(db.cachedStatement(sql: "SELECT id, paused_at FROM app WHERE name = ?"), arguments: [name]).map {
            ($0[0], $0.time(at: 1))
        }
    }

    private func unknownApp() throws -> OperatorAnswer {
        .unknownApp(known: try String.fetchAll(db.cachedStatement(sql: "SELECT name FROM app ORDER BY name")))
    }

    private func confirmRejections(of app: Int64) throws -> OperatorAnswer {
        var breaker = try BreakerTable.load(app, at: now, in: db)
        // Of a token that Apple never accepted no state follows, and only what is repeated ends the asking.
        let pending =
            try Int.fetchOne(
                db.cachedStatement(
                    sql: "SELECT COUNT(*) FROM credential WHERE app = ? AND pending_since IS NOT NULL AND verified_at IS NOT NULL"
                ),
                arguments: [app]
            ) ?? 0
        guard breaker.isOpen || pending > 0 || breaker.hasRecentEpisode(at: now) else { return .nothingToConfirm }
        let wasOpen = breaker.isOpen
        breaker.confirm(at: now)
        try BreakerTable.save(breaker, of: app, in: db)
        return .rejectionsConfirmed(pending: pending, wasOpen: wasOpen)
    }

    // MARK: Rechecks

    private func recheck(_ userID: String) throws -> OperatorAnswer {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT c.client, c.sealed_token IS NOT NULL, c.answered_at, c.claimed_by IS NOT NULL, app.name, app.paused_at, app.id
                      FROM credential c JOIN app ON app.id = c.app
                     WHERE c.user_id = ?
                    """
            ),
            arguments: [userID]
        )
        guard !rows.isEmpty else { return .unknownUser }
        var recheck = OperatorAnswer.Recheck()
        for row in rows {
            let (client, holdsToken, isBeingAsked): (Int64, Bool, Bool) = (row[0], row[1], row[3])
            guard holdsToken else {
                recheck.withoutToken += 1
                continue
            }
            if let answeredAt = row.time(at: 2), now < answeredAt.advanced(by: rules.interval), answeredAt <= now {
                recheck.tooSoon += 1
                recheck.soonest = min(recheck.soonest ?? .legal.upperBound, answeredAt.advanced(by: rules.interval))
                continue
            }
            recheck.due += 1
            if row.hasValue(at: 5) { recheck.pausedApps.append(row[4]) }
            if isBeingAsked { continue }
            // Somebody waits for this one: it goes before a backlog of checks that are late.
            let head = try db.headOfSchedule(ofApp: row[6])?.advanced(by: .milliseconds(-1))
            try db.execute(
                cached: "UPDATE credential SET due_at = ?, first_check = 0 WHERE user_id = ? AND client = ?",
                [min(now, head ?? now).milliseconds, userID, client]
            )
            try db.clearPending(userID, client)
        }
        return .rechecking(recheck)
    }

    // MARK: The quarantine

    private func empty(_ ids: [Int64], _ take: (Int64) throws -> Bool) throws -> OperatorAnswer {
        var missing: [Int64] = []
        for id in ids.prefix(OperatorRequest.mostQuarantined) where try !take(id) { missing.append(id) }
        return .quarantine(moved: min(ids.count, OperatorRequest.mostQuarantined) - missing.count, missing: missing)
    }

    private func retry(_ id: Int64, receivedAt: Timestamp?) throws -> Bool {
        try db.execute(
            cached: """
                INSERT INTO notification_queue (payload, received_at)
                SELECT payload, COALESCE(?, received_at) FROM notification_quarantine WHERE id = ?
                """,
            [receivedAt?.milliseconds, id]
        )
        return try QuarantineRing.remove(id, in: db)
    }
}
