// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// One request of an operator inside one transaction.
struct OperatorTransaction {
    let db: Database
    let rules: RecheckRules
    let now: Timestamp

    func handle(_ row: Row) throws -> HandledRequest {
        let id: Int64 = row[0]
        let request = JSONText.decode(row[1], as: OperatorRequest.self)
        if row.hasValue(at: 3) {
            let position = JSONText.decode(row[4], as: RecheckPosition.self)
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

    private func save(_ id: Int64, position: RecheckPosition?) throws {
        try db.execute(
            cached: "UPDATE operator_request SET position = ? WHERE id = ?",
            [try position.map(JSONText.encode), id]
        )
    }

    private func answer(_ request: OperatorRequest?, requestedAt: Timestamp) throws -> (OperatorAnswer, RecheckPosition?) {
        guard let request else { return (.notUnderstood, nil) }
        guard now <= requestedAt.advanced(by: OperatorRequest.expiry) else { return (.expired, nil) }
        var answer = OperatorAnswer.notUnderstood
        var position: RecheckPosition?
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

    private func carryOut(_ request: OperatorRequest) throws -> (OperatorAnswer, RecheckPosition?) {
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
            var breaker = try BreakerTable.load(app.id, in: db)?.breaker(at: now) ?? RejectionBreaker()
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
            let recheck = AppRecheck(db: db, rules: rules)
            let answer = OperatorAnswer.recheckingApp(
                credentials: credentials ?? 0,
                tooSoon: try recheck.countTooSoon(app.id, at: now),
                requestsPerSecond: rules.requestsPerSecond,
                isPaused: app.pausedAt != nil
            )
            return (answer, try recheck.begin(app.id, credentials: credentials ?? 0, at: now))
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
        // Of a token that Apple never accepted no state follows, and only what is repeated ends the asking.
        let pending =
            try Int.fetchOne(
                db.cachedStatement(
                    sql: "SELECT COUNT(*) FROM credential WHERE app = ? AND pending_since IS NOT NULL AND verified_at IS NOT NULL"
                ),
                arguments: [app]
            ) ?? 0
        return try BreakerTable.change(app, at: now, in: db) { breaker in
            let wasOpen = breaker.isOpen
            guard wasOpen || pending > 0 || breaker.hasRecentEpisode(at: now) else { return .nothingToConfirm }
            breaker.confirm(at: now)
            return .rejectionsConfirmed(pending: pending, wasOpen: wasOpen)
        }
    }

    // MARK: Rechecks

    private func recheck(_ userID: String) throws -> OperatorAnswer {
        let directory = try ClientDirectory(db)
        let table = UserTable(db: db, directory: directory)
        let users = try table.load(directory.apps.keys.sorted().map { AppUserID(app: $0, userID: userID) })
        guard users.values.contains(where: { !$0.holdings.isEmpty }) else { return .unknownUser }
        var recheck = OperatorAnswer.Recheck()
        for var user in users.values.sorted(by: { $0.id.app < $1.id.app }) {
            let (id, before) = (user.id, user.tally)
            for holding in user.holdings {
                guard try isDue(holding.record, of: id.app, &recheck) else { continue }
                // Somebody waits for this one: it goes before a backlog of checks that are late.
                let head = try directory.apps[id.app].flatMap { try db.headOfSchedule(ofApp: $0.id) }
                user[holding.clientID]?.recheck(at: min(now, head?.advanced(by: .milliseconds(-1)) ?? now))
            }
            _ = try table.save([user])
            var tally = UserRecord.Tally()
            tally.change(from: before, to: user.tally)
            try table.add([id.app: tally])
        }
        return .rechecking(recheck)
    }

    /// Whether Apple is to be asked about a token. What is being asked comes back by itself.
    private func isDue(_ record: CredentialRecord, of app: String, _ recheck: inout OperatorAnswer.Recheck) throws -> Bool {
        guard record.credential.token?.sealed != nil else {
            recheck.withoutToken += 1
            return false
        }
        if let answeredAt = record.answeredAt, now < answeredAt.advanced(by: rules.interval), answeredAt <= now {
            recheck.tooSoon += 1
            recheck.soonest = min(recheck.soonest ?? .legal.upperBound, answeredAt.advanced(by: rules.interval))
            return false
        }
        recheck.due += 1
        if try self.app(app)?.pausedAt != nil { recheck.pausedApps.append(app) }
        return record.claimedBy == nil
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
