// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// One request of an operator inside one transaction.
struct OperatorTransaction<Connection: TableConnection> {
    let connection: Connection
    let rules: RecheckRules
    let now: Timestamp

    /// - Parameter row: `id, request, requested_at, answer, position`.
    func handle(_ row: Connection.Row) throws -> HandledRequest {
        let id = row.integer(at: 0)
        let request = JSONText.decode(row.text(at: 1) ?? "", as: OperatorRequest.self)
        if !row.isNull(at: 3) {
            let next = try JSONText.decode(row.text(at: 4) ?? "", as: RequestPosition.self).flatMap(goOn)
            try connection.execute("UPDATE operator_request SET position = \((try next.map(JSONText.encode)).columnValue) WHERE id = \(id)")
            return (request, nil)
        }
        let (answer, position) = try answer(request, requestedAt: Timestamp(milliseconds: row.integer(at: 2)))
        try connection.execute(
            """
            UPDATE operator_request
               SET request = \(request?.isErasure ?? false ? "" : row.text(at: 1) ?? ""), answer = \(try JSONText.encode(answer)),
                   answered_at = \(now), position = \((try position.map(JSONText.encode)).columnValue)
             WHERE id = \(id)
            """
        )
        return (request, answer)
    }

    private func answer(_ request: OperatorRequest?, requestedAt: Timestamp) throws -> (OperatorAnswer, RequestPosition?) {
        guard let request else { return (.notUnderstood, nil) }
        guard now <= requestedAt.advanced(by: OperatorRequest.expiry) else { return (.expired, nil) }
        do {
            return try connection.inSavepoint { try carryOut(request) }
        } catch is UnknownApp {
            return (.unknownApp(known: try connection.fetchAll("SELECT name FROM app ORDER BY name").map { $0[0] }), nil)
        } catch let error as StoreError {
            guard case .refused = error else { throw error }
            return (.refused("\(error)"), nil)
        }
    }

    private func carryOut(_ request: OperatorRequest) throws -> (OperatorAnswer, RequestPosition?) {
        switch request {
        case .pause(let name):
            let app = try app(name)
            let since = app.pausedAt ?? now
            try pause(app.id, since: since)
            return (.paused(since: since), nil)
        case .resume(let name):
            let app = try app(name)
            try pause(app.id, since: nil)
            return (.resumed(wasPaused: app.pausedAt != nil), nil)
        case .confirmRejections(let name):
            let app = try app(name)
            return (try confirmRejections(of: app.id, isPaused: app.pausedAt != nil), nil)
        case .resetBreaker(let name):
            let app = try app(name)
            let wasOpen = try BreakerRow.change(app.id, at: now, on: connection) { breaker in
                defer { breaker = RejectionBreaker() }
                return breaker.isOpen
            }
            return (.breakerReset(wasOpen: wasOpen), nil)
        case .confirmRevocations(let name, let count):
            return try release(app(name).id, isConfirmed: true, count: count)
        case .dropRevocations(let name):
            return try release(app(name).id, isConfirmed: false, count: nil)
        case .recheckUser(let userID):
            return (try recheck(userID), nil)
        case .recheckApp(let name):
            let app = try app(name)
            let count: SQL = "SELECT CAST(COALESCE(SUM(count), 0) AS BIGINT) FROM credential_count WHERE app = \(app.id)"
            let credentials = try connection.fetchInt(count)
            let recheck = AppRecheck(connection: connection, rules: rules)
            let answer = OperatorAnswer.recheckingApp(
                credentials: credentials,
                tooSoon: try recheck.countTooSoon(app.id, at: now),
                requestsPerSecond: rules.requestsPerSecond,
                isPaused: app.pausedAt != nil
            )
            return (answer, .recheck(try recheck.begin(app.id, credentials: credentials, at: now)))
        case .retryQuarantined(let ids, let receivedAt):
            return (try empty(ids) { try retry($0, receivedAt: receivedAt) }, nil)
        case .dropQuarantined(let ids):
            return (try empty(ids) { try QuarantineRow.remove($0, on: connection) }, nil)
        case .forget(let request):
            if let name = request.app { _ = try app(name) }
            return (try UserErasure(connection: connection, request: request, now: now).carryOut(), nil)
        case .undoImport(let importID):
            return (.importUndone(try ImportErasure(connection: connection, importID: importID, now: now).carryOut()), nil)
        }
    }

    private func release(_ app: Int64, isConfirmed: Bool, count: Int?) throws -> (OperatorAnswer, RequestPosition?) {
        let (answer, position) = try RevocationLimitRelease(connection: connection).begin(app, isConfirmed: isConfirmed, count: count)
        return (answer, position.map(RequestPosition.release))
    }

    private func goOn(from position: RequestPosition) throws -> RequestPosition? {
        switch position {
        case .recheck(let position):
            try AppRecheck(connection: connection, rules: rules).goOn(from: position).map(RequestPosition.recheck)
        case .release(let position):
            try RevocationLimitRelease(connection: connection).goOn(from: position, at: now).map(RequestPosition.release)
        }
    }

    private func app(_ name: String) throws -> (id: Int64, pausedAt: Timestamp?) {
        guard let row = try connection.fetchOne("SELECT id, paused_at FROM app WHERE name = \(name)") else { throw UnknownApp() }
        return (row[0], row[1])
    }

    private func pause(_ app: Int64, since time: Timestamp?) throws {
        try connection.lockSettlements()
        try connection.execute("UPDATE app SET paused_at = \(time.columnValue) WHERE id = \(app)")
    }

    /// The breaker believes pending rejections, and dropped ones once Apple repeats them. So their checks come forward.
    private func confirmRejections(of app: Int64, isPaused: Bool) throws -> OperatorAnswer {
        let doubted = try connection.fetchAll(
            """
            SELECT c.user_id, c.client, c.due_at, c.answered_at, c.claimed_by IS NOT NULL, c.pending_since IS NOT NULL, client.client_id
              FROM credential AS c \(connection.dialect.indexed(by: "credential_doubted")) JOIN client ON client.id = c.client
             WHERE c.app = \(app) AND \(sql: PendingRejection.isDoubted)
            """
        ).filter { rules.asks(about: $0.text(at: 6) ?? "") }
        let head = try connection.headOfSchedule(of: app, under: rules)
        let slots = doubted.compactMap { row -> RecheckSlot? in
            let slot = rules.wait(afterAnswerAt: row.time(at: 3), at: now) ?? beforeOthers(head)
            // A token that siwatch is asking about comes back by itself.
            guard !row.bool(at: 4), !row.bool(at: 5), isGreater(row.time(at: 2), than: slot) else { return nil }
            return RecheckSlot(userID: row[0], client: row[1], dueAt: slot, formerDueAt: row[2])
        }
        try connection.bringForward(slots, of: app)
        let users = Set(doubted.map { $0.text(at: 0) })
        let pending = Set(doubted.filter { $0.bool(at: 5) }.map { $0.text(at: 0) })
        return try BreakerRow.change(app, at: now, on: connection) { breaker in
            let wasOpen = breaker.isOpen
            guard wasOpen || !doubted.isEmpty || breaker.hasRecentEpisode(at: now) else { return .nothingToConfirm }
            breaker.confirm(at: now, within: RefreshPolicy(interval: rules.refreshInterval).longestInterval)
            return .rejectionsConfirmed(now: pending.count, next: users.count - pending.count, wasOpen: wasOpen, isPaused: isPaused)
        }
    }

    /// When a check is due that goes before a backlog of late checks, whose first one is due at `head`.
    private func beforeOthers(_ head: Timestamp?) -> Timestamp { min(now, head?.advanced(by: .milliseconds(-1)) ?? now) }

    private func recheck(_ userID: String) throws -> OperatorAnswer {
        let directory = try ClientDirectory(connection)
        let known = try connection.fetchAll("SELECT DISTINCT app FROM credential WHERE user_id = \(userID)").map { $0.integer(at: 0) }
        guard !known.isEmpty else { return .unknownUser }
        let apps = directory.apps.values.filter { known.contains($0.id) }
        var users = try connection.users(apps.map { AppUserID(app: $0.name, userID: userID) }, in: directory)
            .values.sorted { $0.id.app < $1.id.app }
        var recheck = OperatorAnswer.Recheck()
        var tallies: [String: UserRecord.Tally] = [:]
        for index in users.indices {
            let (app, before) = (users[index].id.app, users[index].tally)
            for holding in users[index].holdings {
                guard try isDue(holding, of: app, &recheck) else { continue }
                let head = try connection.headOfSchedule(of: directory.app(app).id, under: rules)
                users[index][holding.clientID]?.recheck(at: beforeOthers(head))
            }
            tallies[app, default: UserRecord.Tally()].change(from: before, to: users[index].tally)
        }
        try connection.save(users, tallies: tallies, in: directory)
        return .rechecking(recheck)
    }

    /// Whether siwatch asks Apple about a token now. A claimed token comes back by itself.
    private func isDue(_ holding: UserRecord.Holding, of app: String, _ recheck: inout OperatorAnswer.Recheck) throws -> Bool {
        let record = holding.record
        guard record.credential.token?.sealed != nil else {
            recheck.withoutToken += 1
            return false
        }
        guard rules.asks(about: holding.clientID) else {
            recheck.leftClients = (recheck.leftClients ?? []) + [holding.clientID]
            return false
        }
        if let soonest = rules.wait(afterAnswerAt: record.answeredAt, at: now) {
            recheck.tooSoon += 1
            recheck.soonest = min(recheck.soonest ?? .legal.upperBound, soonest)
            return false
        }
        recheck.due += 1
        if try self.app(app).pausedAt != nil { recheck.pausedApps.append(app) }
        return record.claimedBy == nil
    }

    private func empty(_ ids: [Int64], _ take: ([Int64]) throws -> Set<Int64>) throws -> OperatorAnswer {
        let ids = Array(ids.prefix(OperatorRequest.mostQuarantined))
        let taken = try take(ids)
        return .quarantine(moved: taken.count, missing: ids.filter { !taken.contains($0) })
    }

    private func retry(_ ids: [Int64], receivedAt: Timestamp?) throws -> Set<Int64> {
        // The lock keeps each row in place between its read and its move.
        try connection.lockSettlements()
        try connection.execute(
            """
            INSERT INTO notification_queue (payload, received_at)
            SELECT payload, COALESCE(\(receivedAt.columnValue), received_at) FROM notification_quarantine
             WHERE \(try connection.dialect.isOne("id", of: ids)) ORDER BY id
            """
        )
        return try QuarantineRow.remove(ids, on: connection)
    }
}

private struct UnknownApp: Error {}

/// How far a long request of an operator has come, for the next transaction or process.
enum RequestPosition: Codable {
    case recheck(RecheckPosition)
    case release(ReleasePosition)
}
