// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// One request of an operator inside one transaction.
struct OperatorTransaction {
    let connection: Connection
    let rules: RecheckRules
    let now: Timestamp

    /// - Parameter row: `id, request, requested_at, answer, position`
    func handle(_ row: Row) throws -> HandledRequest {
        let id = row.integer(at: 0)
        let request = JSONText.decode(row.text(at: 1) ?? "", as: OperatorRequest.self)
        if !row.isNull(at: 3) {
            let position = JSONText.decode(row.text(at: 4) ?? "", as: RecheckPosition.self)
            let next = try position.flatMap { try AppRecheck(connection: connection, rules: rules).goOn(from: $0) }
            try connection.send("UPDATE operator_request SET position = $2 WHERE id = $1", id, try next.map(JSONText.encode))
            return HandledRequest(request: request, answer: nil)
        }
        let (answer, position) = try answer(request, requestedAt: Timestamp(milliseconds: row.integer(at: 2)))
        try connection.send(
            "UPDATE operator_request SET answer = $2, answered_at = $3, position = $4 WHERE id = $1",
            id,
            try JSONText.encode(answer),
            now,
            try position.map(JSONText.encode)
        )
        return HandledRequest(request: request, answer: answer)
    }

    private func answer(_ request: OperatorRequest?, requestedAt: Timestamp) throws -> (OperatorAnswer, RecheckPosition?) {
        guard let request else { return (.notUnderstood, nil) }
        guard now <= requestedAt.advanced(by: OperatorRequest.expiry) else { return (.expired, nil) }
        try connection.send("SAVEPOINT request")
        do {
            let answer = try carryOut(request)
            try connection.flush()
            return answer
        } catch let error as PostgresError where error.sqlState.hasPrefix("23") {
            try connection.send("ROLLBACK TO SAVEPOINT request")
            return (.refused("\(StoreError(error))"), nil)
        }
    }

    private func carryOut(_ request: OperatorRequest) throws -> (OperatorAnswer, RecheckPosition?) {
        switch request {
        case .pause(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            let since = app.pausedAt ?? now
            try change("UPDATE app SET paused_at = $2 WHERE id = $1", app.id, since)
            return (.paused(since: since), nil)
        case .resume(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            try change("UPDATE app SET paused_at = $2 WHERE id = $1", app.id, nil)
            return (.resumed(wasPaused: app.pausedAt != nil), nil)
        case .confirmRejections(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            return (try confirmRejections(of: app.id), nil)
        case .resetBreaker(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            let wasOpen = try BreakerTable.change(app.id, at: now, on: connection) { breaker in
                defer { breaker.reset() }
                return breaker.isOpen
            }
            return (.breakerReset(wasOpen: wasOpen), nil)
        case .recheckUser(let userID):
            return (try recheck(userID), nil)
        case .recheckApp(let name):
            guard let app = try app(name) else { return (try unknownApp(), nil) }
            let credentials = try connection.rows(
                "SELECT COALESCE(SUM(count), 0)::bigint FROM credential_count WHERE app = $1",
                app.id
            ).integer
            let recheck = AppRecheck(connection: connection, rules: rules)
            let answer = OperatorAnswer.recheckingApp(
                credentials: credentials,
                tooSoon: try recheck.countTooSoon(app.id, at: now),
                requestsPerSecond: rules.requestsPerSecond,
                isPaused: app.pausedAt != nil
            )
            return (answer, try recheck.begin(app.id, credentials: credentials, at: now))
        case .retryQuarantined(let ids, let receivedAt):
            return (try empty(ids) { try retry($0, receivedAt: receivedAt) }, nil)
        case .dropQuarantined(let ids):
            return (try empty(ids) { try QuarantineRing.remove($0, on: connection) }, nil)
        }
    }

    // MARK: Apps

    private func app(_ name: String) throws -> (id: Int64, pausedAt: Timestamp?)? {
        try connection.rows("SELECT id, paused_at FROM app WHERE name = $1", name).first.map { ($0.integer(at: 0), $0.time(at: 1)) }
    }

    private func change(_ sql: String, _ app: Int64, _ time: Timestamp?) throws {
        try connection.lockTail()
        try connection.send(sql, app, time)
    }

    private func unknownApp() throws -> OperatorAnswer {
        .unknownApp(known: try connection.rows("SELECT name FROM app ORDER BY name").map { $0.text(at: 0) ?? "" })
    }

    private func confirmRejections(of app: Int64) throws -> OperatorAnswer {
        // Of a token that Apple never accepted no state follows, and only what is repeated ends the asking.
        let pending = try connection.rows(
            "SELECT COUNT(*) FROM credential WHERE app = $1 AND pending_since IS NOT NULL AND verified_at IS NOT NULL",
            app
        ).integer
        return try BreakerTable.change(app, at: now, on: connection) { breaker in
            let wasOpen = breaker.isOpen
            guard wasOpen || pending > 0 || breaker.hasRecentEpisode(at: now) else { return .nothingToConfirm }
            breaker.confirm(at: now)
            return .rejectionsConfirmed(pending: pending, wasOpen: wasOpen)
        }
    }

    // MARK: Rechecks

    private func recheck(_ userID: String) throws -> OperatorAnswer {
        let directory = try ClientDirectory(connection)
        let table = UserTable(connection: connection, directory: directory)
        let known = try connection.rows("SELECT DISTINCT app FROM credential WHERE user_id = $1", userID).map { $0.integer(at: 0) }
        guard !known.isEmpty else { return .unknownUser }
        let apps = directory.apps.values.filter { known.contains($0.id) }
        let answer = try table.sendLock(apps.map { AppUserID(app: $0.name, userID: userID) })
        var recheck = OperatorAnswer.Recheck()
        var tallies: [String: UserRecord.Tally] = [:]
        for var user in try table.users(answer).values.sorted(by: { $0.id.app < $1.id.app }) {
            let (id, before) = (user.id, user.tally)
            for holding in user.holdings {
                guard try isDue(holding.record, of: id.app, &recheck) else { continue }
                // Somebody waits for this one: it goes before a backlog of checks that are late.
                let head = try directory.apps[id.app].flatMap { try connection.headOfSchedule(ofApp: $0.id) }
                user[holding.clientID]?.recheck(at: min(now, head?.advanced(by: .milliseconds(-1)) ?? now))
            }
            try table.sendSave([user])
            tallies[id.app, default: UserRecord.Tally()].change(from: before, to: user.tally)
        }
        try connection.lockTail()
        try table.sendAdd(tallies)
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

    /// - Parameter take: gives back those that were there.
    private func empty(_ ids: [Int64], _ take: ([Int64]) throws -> Set<Int64>) throws -> OperatorAnswer {
        let ids = Array(ids.prefix(OperatorRequest.mostQuarantined))
        let taken = try take(ids)
        return .quarantine(moved: taken.count, missing: ids.filter { !taken.contains($0) })
    }

    private func retry(_ ids: [Int64], receivedAt: Timestamp?) throws -> Set<Int64> {
        // What is read is there until it has moved.
        try connection.lockTail()
        try connection.send(
            """
            INSERT INTO notification_queue (payload, received_at)
            SELECT payload, COALESCE($1, received_at) FROM notification_quarantine WHERE id = ANY($2) ORDER BY id
            """,
            receivedAt,
            ArrayOf(ids)
        )
        return try QuarantineRing.remove(ids, on: connection)
    }
}
