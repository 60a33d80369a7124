// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

extension Simulation {
    /// Lets time pass: a moment, to the next due thing, or some hours.
    mutating func passTime() async throws {
        let roll = Int.random(in: 0..<100, using: &generator)
        if roll < (flights.isEmpty ? 20 : 60) {
            let moment = Duration.milliseconds(Int.random(in: 1...8_000, using: &generator))
            if let oldest = flights.map(\.trulySentAt).min(), oldest.duration(to: truth) > Self.timeout { try await land() }
            return try advance(by: moment)
        }
        // Nothing under way takes as long, unless the whole process stands still.
        if plan.freezes, chance(150) {
            world.with { state in
                if !flights.isEmpty { state.count(.leaseLapsed) }
                state.note("the process stands still", counting: .freeze)
            }
        } else {
            try await land()
        }
        if roll < 85, let next = try nextDue() {
            try advance(by: max(now.duration(to: next), .zero) + .milliseconds(Int.random(in: 0...2_000, using: &generator)))
        } else {
            try advance(by: .seconds(Int.random(in: 10...20_000, using: &generator)))
        }
    }

    mutating func land() async throws {
        while !flights.isEmpty || !claimed.isEmpty {
            while !flights.isEmpty { try await answer(flights.count - 1) }
            try await resolveClaimed()
        }
        while !waiting.isEmpty { try await commit(4) }
    }

    mutating func advance(by duration: Duration) throws {
        // The earlier commits did not know the rows that arrive now.
        try check()
        world.with { $0.now = $0.now.advanced(by: duration) }
        try deliver()
    }

    /// People do what they meant to do by now, and backends insert everything that has arrived.
    private mutating func deliver() throws {
        let (now, truth) = world.with { ($0.now, $0.truth) }
        let due = agenda.filter { $0.at <= truth }.sorted { $0.at < $1.at }
        guard !due.isEmpty else { return }
        agenda.removeAll { $0.at <= truth }
        for (_, delivery) in due { try happen(delivery, at: now) }
    }

    private mutating func happen(_ delivery: Delivery, at now: Timestamp) throws {
        func insert(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> Int64 {
            try database.rows("INSERT INTO \(sql) RETURNING id", arguments)[0][0]
        }
        switch delivery {
        case .passwordChange(let credential): act(credential.userID) { $0.changePassword($1) }
        case .signIn(let credential): act(credential.userID) { $0.signIn($1, credential) }
        case .post(let number):
            let id = try insert("notification_queue (payload, received_at) VALUES (?, ?)", [String(number), now.milliseconds])
            world.with { state in
                state.model.insert(.init(post: state.apple.posts[number], receivedAt: now), as: id)
                state.note("notification \(id) arrives, post \(number)")
            }
        case .grant(let signIn, let address):
            let id = try insert(
                "grant_queue (client_id, user_id, refresh_token, email, granted_at) VALUES (?, ?, ?, ?, ?)",
                [signIn.credential.clientID, signIn.credential.userID, signIn.token, address, signIn.at.milliseconds]
            )
            world.with { state in
                let isMisdated = state.misdated.contains(signIn.credential.userID)
                if !isMisdated, state.model.isEnded(signIn) { state.count(.eventBeforeSignIn) }
                if let token = signIn.token, !state.apple.isIssued(token) { state.count(.truncatedToken) }
                let (credential, token) = (signIn.credential, signIn.token)
                state.model.insert(.init(credential: credential, grantedAt: signIn.at, token: token, address: address), as: id)
                state.note("grant \(id) arrives, of \(signIn.credential.userID) at \(signIn.credential.clientID)")
            }
        case .code(let row):
            let id = try insert(
                "grant_queue (client_id, user_id, authorization_code, redirect_uri, granted_at) VALUES (?, ?, ?, ?, ?)",
                [row.clientID, row.userID, ScriptedApple.text(ofCode: row.code), row.redirectURI, row.grantedAt.milliseconds]
            )
            world.with { state in
                // A row without a user holds nothing back.
                let credential = CredentialID(clientID: row.clientID, userID: row.userID ?? "")
                let code = ReferenceModel.CodeRow(namesUser: row.userID != nil)
                state.model.insert(.init(credential: credential, grantedAt: row.grantedAt, code: code), as: id)
                state.note("code \(id) arrives, \(row.code) of \(row.userID ?? "somebody") at \(row.clientID)")
            }
        case .request(let row):
            let id = try insert(
                "revocation_queue (client_id, user_id, requested_at) VALUES (?, ?, ?)",
                [row.credential.clientID, row.credential.userID, row.requestedAt.milliseconds]
            )
            world.with { state in
                state.model.insert(row, as: id)
                state.note("request \(id) to revoke arrives, of \(row.credential.userID) at \(row.credential.clientID)")
            }
        }
    }

    enum Lane {
        case notifications, grants, codes, revocations
        case refreshes(Int)
    }

    /// The lanes with work, and since when or from when on they have it.
    func dueLanes() throws -> [(lane: Lane, at: Timestamp)] {
        let row = try database.rows(
            """
            WITH known AS (SELECT id FROM client WHERE client_id <> ?)
            SELECT (SELECT MIN(due_at) FROM notification_queue),
                   (SELECT MIN(due_at) FROM grant_queue WHERE authorization_code IS NULL),
                   (SELECT MIN(due_at) FROM grant_queue WHERE authorization_code IS NOT NULL),
                   (SELECT MIN(due_at) FROM (SELECT due_at FROM revocation_queue WHERE opened_at IS NULL AND held_at IS NULL
                                              UNION ALL SELECT due_at FROM revocation WHERE client IN (SELECT id FROM known)) AS waiting),
                   (SELECT MIN(due_at) FROM credential WHERE app = 1 AND due_at IS NOT NULL AND client IN (SELECT id FROM known)),
                   (SELECT MIN(due_at) FROM credential WHERE app = 2 AND due_at IS NOT NULL AND client IN (SELECT id FROM known)),
                   (SELECT SUM(id) FROM app WHERE pending > 0)
            """,
            [dropped?.clientID ?? ""]
        )[0]
        let known: [Lane] = [.notifications, .grants, .codes, .revocations, .refreshes(0), .refreshes(1)]
        var lanes = zip(known, row.databaseValues).compactMap { lane, value in
            Int64.fromDatabaseValue(value).map { (lane: lane, at: Timestamp(milliseconds: $0)) }
        }
        // siwatch may believe a rejection at any time.
        let pending: Int = row[6] ?? 0
        for app in plan.apps.indices where pending & (app + 1) != 0 { lanes.append((.refreshes(app), SimulatedTime.start)) }
        return lanes
    }

    func nextDue() throws -> Timestamp? {
        let offset = world.with(\.offset)
        var next = agenda.map { $0.at.advanced(by: offset) }
        for lane in try dueLanes() where lane.at != SimulatedTime.start {
            if case .revocations = lane.lane { continue }
            next.append(lane.at)
        }
        if let revocation = try nextRevocation() { next.append(revocation) }
        return next.min()
    }

    /// siwatch may believe at any time that a token was dead from the first, and a repeated request for a revocation waits for that. The
    /// simulation tries both now and then, not each minute.
    private func nextRevocation() throws -> Timestamp? {
        let row = try database.rows(
            """
            SELECT MIN(at) FROM (SELECT due_at + CASE WHEN EXISTS (SELECT 1 FROM revocation WHERE user_id = q.user_id) THEN 14400000 ELSE 0 END AS at
                                      FROM revocation_queue q WHERE opened_at IS NULL AND held_at IS NULL
                                     UNION ALL
                                    SELECT due_at + CASE before_answer WHEN 'invalid_grant' THEN 14400000 ELSE 0 END
                                      FROM revocation WHERE client IN (SELECT id FROM client WHERE client_id <> ?)) AS waiting
            """,
            [dropped?.clientID ?? ""]
        )[0]
        return Int64.fromDatabaseValue(row[0]).map { Timestamp(milliseconds: $0) }
    }

    // MARK: Calm

    /// The trouble is over. In an app with few users the calm takes up to three of the longest intervals. Within the first a user's 200
    /// closes the breaker. Within the second Apple rejects the user who left. By the end of the third Apple has repeated it.
    ///
    /// Or the other user's token is new, so that its first 200 proves nothing. The second does, after the first repetition and before the
    /// next. Both together take no longer, because the 200 that closes the breaker is that first one.
    mutating func calmDown() async throws {
        world.with { ($0.portCallsToCrash, $0.storeTrouble) = (nil, []) }
        try await resumeAll()
        for app in plan.apps where world.with({ $0.apple.weather[app.name]?.isOurFault ?? false }) { reload(app, isRight: true) }
        world.with { $0.apple.weather = [:] }
        try await land()
        try await putClientBack()
        world.note("calm")
        if plan.setsClock { try await setClock(ahead: .zero) }
        // Rows that a wrong clock has put off come an interval later. So do the pending rejections of an app with a refused client: Apple
        // may first blame that client within the first interval of the calm, and siwatch then drops them.
        let isRefusing = world.with { $0.apple.refused != nil }
        let interval = SimulatedProcess.policy.longestInterval
        let intervals = 3.0 + (plan.setsClock ? 1 : 0) + (isRefusing ? 1 : 0)
        let length = interval * intervals + BreakerRules().settle + .seconds(120)
        var end = now.advanced(by: length)
        let lastReturn = end.advanced(by: .zero - interval)
        returnedAt = now
        var keepsFormer = false
        while now < end, !isBroken {
            isOver = now > lastReturn
            // siwatch asks again about a previously accepted token only after Apple has repeated its rejection of the token that replaced it.
            if !keepsFormer {
                keepsFormer = world.with { state in state.model.credentials.contains { state.model.formerToken(of: $0) != nil } }
            }
            // A user who returns may bring the only token by which a client can be proven.
            end = max(end, returnedAt.advanced(by: length + (keepsFormer ? interval : .zero)))
            try await fetchSigningKeys()
            try await confirmRevocations()
            // The loops turn even without due work, and bring back due times that a wrong clock has left far ahead.
            if plan.setsClock {
                for app in plan.apps.indices { try await claimCredentials(of: app) }
                try await claimCodes()
                // Requests first, then their tokens.
                for _ in 0..<2 {
                    try await claimRevocations()
                    try await land()
                }
            }
            try await workOff()
            if chance(200) { try await maintain() }
            if chance(200) { try await recheckRejected() }
            if plan.confirmsRejections, chance(200) { try await confirmWhatIsReal() }
            if plan.importsFiles { try await importWhatHidesAnEnd() }
            try check()
            steps += 1
            // Due work that no lane took waits for the end of a pause.
            let next = try nextDue().map { $0 > now ? $0 : now.advanced(by: .seconds(600)) } ?? end
            let longest = now.advanced(by: plan.setsClock ? .seconds(21_600) : interval)
            try advance(by: now.duration(to: min(next, end, longest)))
        }
        try await workOff()
        // siwatch may have put a question off by a minute.
        for _ in 0..<2 {
            try await confirmRevocations()
            try advance(by: .seconds(61))
            try await workOff()
        }
        try check()
        checkEnd()
    }

    mutating func workOff() async throws {
        for _ in 0..<50 {
            for (lane, at) in try dueLanes() where at <= now { try await claim(for: lane) }
            if claimed.isEmpty, flights.isEmpty, waiting.isEmpty { return }
            try await land()
        }
    }
}
