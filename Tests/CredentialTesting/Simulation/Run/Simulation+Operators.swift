// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import GRDB

extension Simulation {
    mutating func operate() async throws {
        let app = plan.apps.randomElement(using: &generator)!
        if chance(200) { try await plant(in: app.name) }
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<50: try await recheck(people.randomElement(using: &generator)!.user)
        case 50..<65: try await ask(.recheckApp(app.name)) { $0.ledger.recheckedAll(at: $0.truth) }
        case 65..<75: try await ask(.pause(app: app.name)) { $0.count(.operatorPause) }
        case 75..<90: try await ask(.resume(app: app.name))
        case 90..<97: try await ask(.resetBreaker(app: app.name))
        default: try await retryQuarantined()
        }
    }

    /// Most rows come back to the quarantine for the same reason.
    private mutating func retryQuarantined() async throws {
        try await ask(.retryQuarantined(try database.rows("SELECT id FROM notification_quarantine").map { $0[0] }, receivedAt: nil))
        try adoptReleased()
    }

    /// The rows that the quarantine gave back have new numbers.
    func adoptReleased() throws {
        let rows = try database.rows("SELECT id, payload, received_at FROM notification_queue")
        world.with { state in
            for row in rows {
                let (id, payload): (Int64, String) = (row[0], row[1])
                guard state.model.notificationRows[id] == nil, let number = Int(payload) else { continue }
                state.count(.releasedFromQuarantine)
                let receivedAt = Timestamp(milliseconds: row[2])
                state.model.insert(.init(post: state.apple.posts[number], receivedAt: receivedAt), as: id, isNew: false)
            }
        }
    }

    /// Asks again about a user whose rejected token siwatch still keeps. Pending rejections of the same user would have to wait anew.
    mutating func recheckRejected() async throws {
        let rejected = world.with { state in
            state.model.credentials.filter { state.model.row(of: $0).map { $0.holdsToken && !$0.isScheduled } ?? false }
                .sorted { ($0.userID, $0.clientID) < ($1.userID, $1.clientID) }
        }
        guard let credential = rejected.randomElement(using: &generator),
            plan.apps.contains(where: { $0.clientIDs == [credential.clientID] })
        else { return }
        try await recheck(credential.userID)
    }

    mutating func resumeAll() async throws { for app in plan.apps { try await ask(.resume(app: app.name)) } }

    // MARK: Rejections

    /// A credential whose token Apple had accepted and rejects now, and whether the rejection waits. siwatch has dropped any other.
    typealias Doubted = (credential: CredentialID, isPending: Bool)

    func doubted(in app: SimulatedApp) throws -> [Doubted] {
        try database.rows(
            """
            SELECT client.client_id, user_id, pending_since IS NOT NULL
              FROM credential JOIN client ON client.id = credential.client JOIN app ON app.id = credential.app
             WHERE app.name = ? AND answer = 'rejected' AND due_at > 0 AND verified_at > 0 AND COALESCE(rejected_at, 0) <= verified_at
             ORDER BY user_id, client.client_id
            """,
            [app.name]
        ).map { (CredentialID(clientID: $0[0], userID: $0[1]), $0[2]) }
    }

    /// An operator has asked the users, and all whom Apple rejects have left. An operator who is wrong ends sign-ins by pending rejections.
    mutating func confirmWhatIsReal() async throws {
        let app = plan.apps.randomElement(using: &generator)!
        let doubted = try doubted(in: app)
        let areGone = world.with { state in
            doubted.allSatisfy { doubt in
                state.model.tokenText(of: doubt.credential).map { !state.apple.isAlive($0, at: doubt.credential) } ?? false
            }
        }
        guard !doubted.isEmpty, areGone else { return }
        world.with { state in doubted.forEach { state.ledger.confirmed($0.credential) } }
        try await confirm(doubted, in: app)
    }

    /// siwatch says how many users it means, each once, and may ask about the dropped ones before their time.
    mutating func confirm(_ doubted: [Doubted], in app: SimulatedApp) async throws {
        let waiting = Set(doubted.filter(\.isPending).map(\.credential.userID))
        let dropped = Set(doubted.map(\.credential.userID)).subtracting(waiting)
        let answer = try await ask(.confirmRejections(app: app.name)) { state in
            state.count(.rejectionsConfirmed)
            if !dropped.isEmpty { state.count(.droppedConfirmed) }
            for doubt in doubted { state.ledger.rechecked(doubt.credential.userID, at: state.truth) }
        }
        if case .rejectionsConfirmed(waiting.count, dropped.count, _, _) = answer { return }
        // The process has died meanwhile, and the next one carries out no older request.
        if answer == .expired { return }
        world.with { state in
            let text = answer.map { "\($0)" } ?? "nothing"
            state.report(Violation(.nothingIsLost, "a confirmation of \(waiting.count) and \(dropped.count) users answers \(text)"))
        }
    }

    // MARK: The revocation limit

    mutating func confirmRevocations() async throws {
        for app in plan.apps {
            // A process that dies has confirmed none.
            for _ in 1...3 {
                guard let count = world.with({ $0.model.heldRequests(of: app.name) }) else { break }
                try await decide(on: app, by: .confirmRevocations(app: app.name, count: count))
            }
        }
    }

    /// An operator confirms what there is, or what there was at an earlier look, or drops everything. Or there is nothing.
    mutating func decideAboutRevocations() async throws {
        let app = plan.apps.randomElement(using: &generator)!
        let count = world.with { $0.model.heldRequests(of: app.name) } ?? 1
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: try await decide(on: app, by: .confirmRevocations(app: app.name, count: count))
        case 1: try await decide(on: app, by: .confirmRevocations(app: app.name, count: count / 2))
        default: try await decide(on: app, by: .dropRevocations(app: app.name))
        }
    }

    private mutating func decide(on app: SimulatedApp, by request: OperatorRequest) async throws {
        let deaths = world.with { $0.tally[.crash] }
        let answer = try await ask(request)
        let lifted = try database.rows("SELECT name FROM app WHERE revocations_held_at IS NULL").map { $0[0] as String }
        let isLifted = lifted.contains(app.name)
        let rows = try database.rows("SELECT id, held_at IS NOT NULL, COALESCE(confirmed_at, 0) FROM revocation_queue").map {
            (id: $0[0] as Int64, isHeld: $0[1] as Bool, confirmedAt: Timestamp(milliseconds: $0[2]))
        }
        let waiting = Set(rows.filter(\.isHeld).map(\.id))
        let confirmed = Dictionary(uniqueKeysWithValues: rows.filter { !$0.isHeld }.map { ($0.id, $0.confirmedAt) })
        world.with { state in
            // Nobody waits for a late answer.
            if answer == .expired { return }
            if state.tally[.crash] == deaths { state.sawLimit(of: app.name) }
            var expected = OperatorAnswer.limitNotReached
            if case .confirmRevocations(_, let limit) = request,
                let (count, left) = state.model.release(app.name, upTo: limit, confirmed, isLifted: isLifted)
            {
                expected = .revocationsReleased(count: count, left: left)
                state.count(.heldConfirmed)
            } else if request == .dropRevocations(app: app.name), let count = state.model.drop(app.name, but: waiting, isLifted: isLifted) {
                expected = .revocationsReleased(count: count, left: 0)
                state.count(.heldDropped)
            }
            guard answer != expected else { return }
            state.report(Violation(.nothingIsLost, "\(request.name) answers \(answer.map { "\($0)" } ?? "nothing"), not \(expected)"))
        }
    }

    // MARK: The configuration

    /// An operator takes a client out of the configuration by mistake, or puts it back. Both take effect at the next start.
    mutating func changeClients() async throws {
        if dropped != nil { return try await putClientBack() }
        dropped = (plan.apps[0].clientIDs.randomElement(using: &generator)!, truth)
        world.note("\(dropped!.clientID) is taken out of the configuration", counting: .clientDropped)
        throw Crash()
    }

    /// Sign-ins wait for their client for a week.
    var isDroppedForLong: Bool { dropped.map { $0.at.duration(to: truth) > .days(3) } ?? false }

    /// A start takes the rows of the client that came meanwhile out of the quarantine.
    mutating func putClientBack() async throws {
        guard let client = dropped?.clientID else { return }
        let strangers = try countStrangers()
        dropped = nil
        world.note("\(client) is in the configuration again")
        try await crash()
        let left = try countStrangers()
        world.with { state in
            for _ in 0..<strangers { state.count(.eventOfDroppedClient) }
            if left > 0 { state.report(Violation(.nothingIsLost, "\(left) notifications about \(client) stay in the quarantine")) }
        }
    }

    private func countStrangers() throws -> Int {
        try database.rows("SELECT id FROM notification_quarantine WHERE reason = 'wrong_audience'").count
    }

    private mutating func recheck(_ user: String) async throws {
        try await ask(.recheckUser(user)) { $0.ledger.rechecked(user, at: $0.truth) }
    }

    /// Leaves a request, lets the daemon carry it out, and tells the model the rejected tokens that siwatch asks about again.
    @discardableResult
    mutating func ask(_ request: OperatorRequest, effect: (inout SimulatedWorld.State) -> Void = { _ in }) async throws -> OperatorAnswer? {
        let id = try await process.store.submit(request, at: now)
        try await carryOut()
        let scheduled = try database.rows(
            """
            SELECT client.client_id, user_id FROM credential JOIN client ON client.id = credential.client
             WHERE rejected_at > COALESCE(verified_at, 0) AND due_at IS NOT NULL AND claimed_by IS NULL
            """
        ).map { CredentialID(clientID: $0[0], userID: $0[1]) }
        world.with { state in
            state.note("an operator: \(request.name) \(request.app ?? request.userID ?? "")")
            for credential in scheduled where state.model.recheck(credential) { state.count(.askedAgain) }
            effect(&state)
        }
        return try await process.store.answer(to: id)
    }

    /// The daemon carries out the waiting requests. If it dies meanwhile, the next daemon does the rest; if the store fails, the next turn.
    mutating func carryOut() async throws {
        var isDone = false
        while !isDone {
            do {
                isDone = try await !process.operators.handleNext()
            } catch is Crash {
                try await crash()
            } catch let error as StoreError where error.isSimulated {
                continue
            }
        }
        let stored = try await process.store.breakers()
        for app in plan.apps where process.writer.breakers.breaker(of: app.name) != stored[app.name] ?? RejectionBreaker() {
            world.report(Violation(.nothingIsLost, "the process does not know the breaker of \(app.name) as it stands"))
        }
    }
}
