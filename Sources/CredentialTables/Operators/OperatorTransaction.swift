// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// One request of an operator inside one transaction.
struct OperatorTransaction<Connection: TableConnection> {
    let connection: Connection
    /// As siwatch registered it. On a file anybody may have changed the tables since.
    let directory: ClientDirectory
    let decisions: DecisionBook
    let rules: RecheckRules
    let now: Timestamp

    /// - Parameter row: `id, request, requested_at, answer, position, number, proof`.
    func handle(_ row: Connection.Row) throws -> HandledRequest {
        let (id, number, text, proof) = (row.integer(at: 0), row.integer(at: 5), row.text(at: 1) ?? "", row.bytes(at: 6))
        let place = DecisionRow(.request, id)
        let request = JSONText.decode(text, as: OperatorRequest.self)
        if !row.isNull(at: 3) {
            let position = row.text(at: 4) ?? ""
            let isOurs = decisions.isProved(.progress(request: id, number: number, position: position), by: proof, in: place)
            let next = try isOurs ? JSONText.decode(position, as: RequestPosition.self).flatMap(goOn) : nil
            if isOurs, next == nil { decisions.spend(proof) }
            try save(next, of: id, number)
            return (request, nil)
        }
        let requestedAt = Timestamp(milliseconds: row.integer(at: 2))
        let isOurs = decisions.isProved(.request(text: text, at: requestedAt, number: number), by: proof, in: place)
        let refusal = row.isNull(at: 1) ? OperatorAnswer.notUnderstood : .refused(Self.unproved)
        let (answer, position) = try isOurs ? answer(request, requestedAt: requestedAt) : (refusal, nil)
        if isOurs { decisions.spend(proof) }
        try connection.execute(
            """
            UPDATE operator_request
               SET request = \(request?.isErasure ?? false ? "" : text), answer = \(try JSONText.encode(answer)), answered_at = \(now)
             WHERE id = \(id)
            """
        )
        try save(position, of: id, number)
        return (request, answer)
    }

    private static var unproved: String { "no process of siwatch's user wrote this request, or it was carried out before" }

    private func save(_ position: RequestPosition?, of id: Int64, _ number: Int64) throws {
        let text = try position.map(JSONText.encode)
        let proof = text.flatMap { decisions.proof(of: .progress(request: id, number: number, position: $0)) }
        try connection.execute(
            "UPDATE operator_request SET position = \(text.columnValue), proof = \(proof.columnValue) WHERE id = \(id)"
        )
    }

    private var breakers: BreakerRow<Connection> { BreakerRow(connection: connection, decisions: decisions) }
    private var pauses: PauseRow<Connection> { PauseRow(connection: connection, decisions: decisions) }
    private var limits: RevocationLimitRelease<Connection> {
        RevocationLimitRelease(connection: connection, directory: directory, decisions: decisions)
    }

    private func answer(_ request: OperatorRequest?, requestedAt: Timestamp) throws -> (OperatorAnswer, RequestPosition?) {
        guard let request else { return (.notUnderstood, nil) }
        let isLate = now > requestedAt.advanced(by: OperatorRequest.expiry) || decisions.isTooOld(requestedAt, at: now)
        if isLate { return (.expired, nil) }
        do {
            return try decisions.inSavepoint { try connection.inSavepoint { try carryOut(request) } }
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
            try pauses.save(since, of: app.id)
            return (.paused(since: since), nil)
        case .resume(let name):
            let app = try app(name)
            try pauses.save(nil, of: app.id)
            return (.resumed(wasPaused: app.pausedAt != nil), nil)
        case .confirmRejections(let name):
            let app = try app(name)
            return (try confirmRejections(of: app.id, isPaused: app.pausedAt != nil), nil)
        case .resetBreaker(let name):
            let app = try app(name)
            let wasOpen = try breakers.change(app.id, at: now) { breaker in
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
            return (try UserErasure(connection: connection, decisions: decisions, request: request, now: now).carryOut(), nil)
        case .undoImport(let importID):
            let erasure = ImportErasure(connection: connection, decisions: decisions, importID: importID, now: now)
            return (.importUndone(try erasure.carryOut()), nil)
        }
    }

    private func release(_ app: Int64, isConfirmed: Bool, count: Int?) throws -> (OperatorAnswer, RequestPosition?) {
        let (answer, position) = try limits.begin(app, isConfirmed: isConfirmed, count: count, at: now)
        return (answer, position.map(RequestPosition.release))
    }

    private func goOn(from position: RequestPosition) throws -> RequestPosition? {
        switch position {
        case .recheck(let position):
            try AppRecheck(connection: connection, rules: rules).goOn(from: position).map(RequestPosition.recheck)
        case .release(let position):
            try limits.goOn(from: position, at: now).map(RequestPosition.release)
        }
    }

    private func app(_ name: String) throws -> (id: Int64, pausedAt: Timestamp?) {
        let row = try connection.fetchOne("SELECT id, paused_at FROM app WHERE name = \(name)")
        guard let known = directory.apps[name]?.id ?? row?.integer(at: 0) else { throw UnknownApp() }
        let clients = try connection.fetchAll("SELECT client_id FROM client WHERE app = \(known) ORDER BY id").map { $0.text(at: 0) ?? "" }
        guard let row, row.integer(at: 0) == known, clients == directory.clients(of: known).map(\.clientID) else {
            throw StoreError.refused("somebody has changed the name or the clients of the app \(name) in the database")
        }
        return (known, row.time(at: 1))
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
        return try breakers.change(app, at: now) { breaker in
            let wasOpen = breaker.isOpen
            guard wasOpen || !doubted.isEmpty || breaker.hasRecentEpisode(at: now) else { return .nothingToConfirm }
            breaker.confirm(at: now, within: RefreshPolicy(interval: rules.refreshInterval).longestInterval)
            return .rejectionsConfirmed(now: pending.count, next: users.count - pending.count, wasOpen: wasOpen, isPaused: isPaused)
        }
    }

    /// When a check is due that goes before a backlog of late checks, whose first one is due at `head`.
    private func beforeOthers(_ head: Timestamp?) -> Timestamp { min(now, head?.advanced(by: .milliseconds(-1)) ?? now) }

    private func recheck(_ userID: String) throws -> OperatorAnswer {
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
