// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import SQLiteStore

/// What the process does, one call at a time, until it dies.
extension Simulation {
    mutating func claim() async throws {
        switch try dueLanes().filter({ $0.at <= now }).randomElement(using: &generator)?.lane {
        case .notifications: try await claimNotifications()
        case .grants: try await claimGrants()
        case .refreshes(let app): try await claimCredentials(of: app)
        case nil: break
        }
    }

    mutating func claimNotifications() async throws {
        claimed += try await process.notifications.claim(upTo: process.notifications.width).map(ClaimedBatch.notifications)
    }

    mutating func claimGrants() async throws {
        claimed += try await process.grants.claim(upTo: 1).map(ClaimedBatch.grants)
    }

    mutating func claimCredentials(of app: Int) async throws {
        let handler = process.refreshes[app]
        for work in try await handler.claim(upTo: 64) { try await send(work, of: plan.apps[app], by: handler) }
    }

    /// Lets the process ask, up to the point where it waits for Apple.
    private mutating func send(_ work: DueCredential, of app: SimulatedApp, by handler: RefreshHandler) async throws {
        if case .admission = work.purpose {
            waiting.append(await handler.resolve(work))
            if chance(200) { try comeBack(work.id) }
            return
        }
        // A task and not a group: it ends when the seed lets Apple answer, and until then the simulation goes on.
        let resolving = Task { await handler.resolve(work) }
        let request = await world.nextRequest()
        let (sentAt, trulySentAt) = world.with { state in
            state.report(state.ledger.sent(work, at: state.truth))
            return (state.now, state.truth)
        }
        flights.append(
            Flight(app: app, work: work, request: request, sentAt: sentAt, trulySentAt: trulySentAt, resolving: resolving)
        )
    }

    mutating func answerOne() async throws {
        guard let flight = flights.randomElement(using: &generator) else { return }
        if chance(80) { return try comeBack(flight.work.id) }
        let isSlow = world.with { $0.apple.weather[flight.app.name] == .slow }
        if isSlow { try advance(by: .seconds(Int.random(in: 1...20, using: &generator))) }
        await answer(Int.random(in: flights.indices, using: &generator))
    }

    static let timeout = Duration.seconds(15)

    mutating func answer(_ index: Int) async {
        let flight = flights.remove(at: index)
        let response = world.with { state in
            let app = flight.app.name
            let isDead = !state.apple.isAlive(flight.request.token, at: flight.work.id)
            var outcome = state.apple.answer(flight.request.token, of: flight.work.id, in: app, using: &generator)
            if flight.trulySentAt.duration(to: state.truth) >= Self.timeout {
                outcome = .unavailable("timeout")
                state.count(.timeout)
            }
            let call = AnsweredCall(
                credential: flight.work.id,
                outcome: outcome,
                // By Apple's clock where the host's is off, by a minute at least. Apple's own leaves a second open.
                sentAt: state.offset == .zero
                    ? flight.sentAt : state.truth.second.advanced(by: state.truth.duration(to: flight.trulySentAt)),
                trulySentAt: flight.trulySentAt,
                answeredAt: state.truth,
                isDead: isDead
            )
            state.ledger.answered(flight.work, call)
            state.count(outcome)
            state.note("Apple answers \(flight.work.id.clientID) \(flight.work.id.userID): \(outcome)")
            let identity = state.apple.identities[app] ?? (keyID: 0, load: 0)
            return RefreshResponse(
                outcome,
                by: ClientIdentity(clientID: flight.work.id.clientID, keyID: "KEY\(identity.keyID)", load: identity.load),
                date: state.truth.second
            )
        }
        if let date = response.date {
            process.appleClock.observe(date)
            world.with { $0.hasHeardApple = true }
        }
        flight.request.answer.resume(returning: response)
        waiting.append(await flight.resolving.value)
    }

    mutating func commitSome() async throws {
        await resolveClaimed()
        try await commit(Int.random(in: 1...3, using: &generator))
    }

    mutating func resolveClaimed() async {
        while !claimed.isEmpty {
            switch claimed.removeFirst() {
            case .notifications(let work): waiting.append(await process.notifications.resolve(work))
            case .grants(let work): waiting.append(await process.grants.resolve(work))
            }
        }
    }

    /// Commits the submissions that have waited longest, all in one batch.
    mutating func commit(_ count: Int) async throws {
        let batch = waiting.prefix(count).flatMap(\.self)
        waiting.removeFirst(min(count, waiting.count))
        if !batch.isEmpty { try await process.writer.settle(batch) }
    }

    mutating func maintain() async throws {
        let trusted = process.clockGuard.trusted
        world.with { state in
            let isOff = state.offset < .zero - ClockTrust.largestSkew * 2 || state.offset > ClockTrust.largestSkew * 2
            if trusted == nil { state.count(.forgettingHeld) }
            if trusted != nil, isOff, state.hasHeardApple {
                state.report(Violation(.nothingIsLost, "a clock that is off by \(state.offset) is trusted to forget by"))
            }
        }
        if let trusted {
            try await process.store.forget(at: trusted)
            world.with { $0.model.swept(at: trusted) }
        }
        try await process.store.sweep(at: now)
    }

    mutating func fetchSigningKeys() async throws {
        let (keys, isNew) = world.with { state in
            let keys = Set((1...state.apple.signingKey).map { "key\($0)" })
            defer { state.knownKeys = keys }
            return (keys, keys != state.knownKeys)
        }
        guard isNew else { return }
        let now = now
        try await process.store.remember(
            keys.sorted().map { SigningKeyRecord(keyID: $0, jwk: "{}", firstSeenAt: now, lastSeenAt: now) },
            fetchedAt: now
        )
        try adoptReleased()
    }

    // MARK: Death

    mutating func armCrash() {
        let calls = Int.random(in: 0...2, using: &generator)
        let after = chance(500)
        world.with { state in
            state.portCallsToCrash = calls
            state.diesAfterEffect = after
        }
    }

    /// Everything in memory is gone; a new process finds what the store has.
    mutating func crash() async throws {
        world.with { state in
            state.count(.crash)
            if !flights.isEmpty { state.count(.crashWithRequestsOut) }
            state.note("crash")
            state.portCallsToCrash = nil
            state.storeTrouble = []
            state.hasHeardApple = false
            state.ledger.crashed()
        }
        await abandon()
        process = try await SimulatedProcess(plan, on: database, in: world, bug: bug)
        world.with { $0.model.recovered(at: $0.now) }
    }

    /// Nobody waits any more for what is under way.
    mutating func abandon() async {
        for flight in flights {
            flight.request.answer.resume(
                returning: RefreshResponse(.unavailable("gone"), by: ClientIdentity(clientID: flight.work.id.clientID, keyID: ""))
            )
            _ = await flight.resolving.value
        }
        flights = []
        claimed = []
        waiting = []
    }
}

extension SimulatedWorld.State {
    mutating func count(_ outcome: RefreshOutcome) {
        switch outcome {
        case .misconfigured: count(.misconfigured)
        case .throttled: count(.throttled)
        case .unavailable: count(.unavailable)
        case .valid, .rejected, .ambiguous, .anotherUser: break
        }
    }
}
