// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// The process's actions, one call at a time, until it dies.
extension Simulation {
    mutating func claim() async throws {
        if let due = try dueLanes().filter({ $0.at <= now }).randomElement(using: &generator) { try await claim(for: due.lane) }
    }

    mutating func claim(for lane: Lane) async throws {
        switch lane {
        case .notifications: try await claimNotifications()
        case .grants: try await claimGrants()
        case .codes: try await claimCodes()
        case .revocations: try await claimRevocations()
        case .refreshes(let app): try await claimCredentials(of: app)
        }
    }

    /// A lane's claim: empty if the store fails. Its loop then goes on at the next wake-up.
    func work<Handler: WorkHandler>(for handler: Handler, upTo slots: Int) async throws -> [Handler.Work] {
        do {
            return try await handler.claim(upTo: slots)
        } catch let error as StoreError where error.isSimulated {
            world.note("the lane of \(handler.lane) claims nothing: \(error)")
            return []
        }
    }

    mutating func claimNotifications() async throws {
        let work = try await work(for: process.notifications, upTo: process.notifications.width)
        claimed += work.map(ClaimedBatch.notifications)
    }

    mutating func claimGrants() async throws {
        let work = try await work(for: process.grants, upTo: 1)
        claimed += work.map(ClaimedBatch.grants)
    }

    /// siwatch takes an import for nine minutes, and no other sign-in has its turn. All lanes of queues turn meanwhile.
    mutating func importMany() async throws {
        hasImported = true
        world.with { state in
            state.importEndsAt = state.truth.advanced(by: .seconds(540))
            state.note("a backend imports many users", counting: .signInBehindImport)
        }
        while world.with({ $0.isImporting }), !isBroken {
            try await claimGrants()
            try await claimNotifications()
            try await claimRevocations()
            try await land()
            try advance(by: .seconds(30))
        }
    }

    mutating func claimCredentials(of app: Int) async throws {
        let handler = process.refreshes[app]
        for work in try await work(for: handler, upTo: 64) { try await send(work, of: plan.apps[app], by: handler) }
    }

    private mutating func send(_ work: DueCredential, of app: SimulatedApp, by handler: RefreshHandler) async throws {
        let isProbe = process.writer.breakers.breaker(of: app.name).isProbed
        let isSent = try await launch(.check(work), of: app) { await handler.resolve(work) }
        if isSent, isProbe { probed(app) }
        if !isSent, chance(200) { try comeBack(work.id) }
    }

    /// An open breaker allows one question in a while, whatever else the process does.
    private mutating func probed(_ app: SimulatedApp) {
        let truth = truth
        if let last = lastProbes[app], last.duration(to: truth) < BreakerRules.probeInterval {
            let violation = Violation(.oneAnswerPerInterval, "\(app.name) is probed again after \(last.duration(to: truth))")
            world.report(violation)
        }
        lastProbes[app] = truth
    }

    mutating func commitSome() async throws {
        try await resolveClaimed()
        try await commit(Int.random(in: 1...3, using: &generator))
    }

    mutating func resolveClaimed() async throws {
        while !claimed.isEmpty {
            switch claimed.removeFirst() {
            case .notifications(let work): waiting.append(await process.notifications.resolve(work))
            case .grants(let work):
                world.with { state in
                    state.model.judged(work, at: state.now, ahead: state.knownOffset)
                    state.noteTakenAhead(work)
                }
                waiting.append(await process.grants.resolve(work))
            case .code(let work): try await launch(work)
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
            let knowsApple = state.heardAppleAt.map { $0.duration(to: state.truth) < .days(7) - .hours(1) } ?? false
            if trusted != nil, isOff, knowsApple {
                state.report(Violation(.nothingIsLost, "a clock that is off by \(state.offset) is trusted to forget by"))
            }
        }
        let (store, now) = (process.store, now)
        if let trusted {
            try await world.call {
                try await store.forget(at: trusted, naming: PlainSealer())
            } effect: { state, _ in
                state.model.swept(at: trusted)
            }
        }
        try await world.call { try await store.sweep(at: now, patience: .zero) }
    }

    /// Apple's keys come with its date, whatever becomes of tokens.
    mutating func fetchSigningKeys() async throws {
        hear(truth.second)
        let (keys, isNew) = world.with { state in
            let keys = Set((1...state.apple.signingKey).map { "key\($0)" })
            return (keys, keys != state.knownKeys)
        }
        guard isNew else { return }
        let (store, now) = (process.store, now)
        let records = keys.sorted().map { SigningKeyRecord(keyID: $0, jwk: "{}", lastSeenAt: now) }
        try await world.call {
            try await store.remember(records, forgetting: [])
        } effect: { state, _ in
            state.knownKeys = keys
        }
        try adoptReleased()
    }

    // MARK: Death

    mutating func armCrash() {
        let calls = Int.random(in: 0...2, using: &generator)
        let after = chance(500)
        world.with { ($0.portCallsToCrash, $0.diesAfterEffect) = (calls, after) }
    }

    /// The process dies with its memory. A new process finds the store's rows.
    mutating func crash() async throws {
        world.with { state in
            if !flights.isEmpty { state.count(.crashWithRequestsOut) }
            state.note("crash", counting: .crash)
            state.countKeysAtDeath()
            state.portCallsToCrash = nil
            state.hasDied = false
            state.storeTrouble = []
            state.heardAppleAt = nil
            state.ledger.crashed()
        }
        await abandon()
        lastProbes = [:]
        // Some processes die again at their start, but none in the calm.
        if plan.crashes > 0, steps < plan.steps, chance(200) { armCrash() }
        do {
            try await start()
        } catch is Crash {
            world.with { state in
                state.note("crash at the start", counting: .crashAtStart)
                state.portCallsToCrash = nil
            }
            try await start()
        }
    }

    private mutating func start() async throws {
        process = try await SimulatedProcess(plan, without: dropped?.clientID, on: database, in: world, bug: bug)
        world.with { $0.model.recovered(at: $0.now, without: dropped?.clientID, voidingClaims: database.voidsClaims) }
        try fillLimits()
        // The previous process may have died right after it released rows from the quarantine.
        try adoptReleased()
    }
}

/// Operators restore an old backup of the database, while people go on signing in.
extension Simulation {
    /// The model's state at the time of the backup.
    struct Backup {
        var model: ReferenceModel
        var ledger: CallLedger
        var inspector: Inspector
        var takenAt: Timestamp
    }

    mutating func backUpOrRestore() async throws {
        guard let backup else { return try backUp() }
        // Wait, so that something has happened in between.
        guard backup.takenAt.duration(to: truth) >= .seconds(3600) else { return }
        try await restore(backup)
    }

    private mutating func backUp() throws {
        // After the restore, no memory would tell.
        try takeReplaysBack()
        try check()
        try database.backUp()
        backup = world.with { state in
            state.note("a backup")
            return Backup(model: state.model, ledger: state.ledger, inspector: inspector, takenAt: state.truth)
        }
    }

    /// All writes since the backup are gone. Some backends report the sign-ins since then again, from their own records.
    private mutating func restore(_ backup: Backup) async throws {
        await abandon()
        // The command has lost its database.
        undo = nil
        try database.restore()
        // As the page tells operators.
        world.memory.clear()
        (replays, olderLimits) = ([:], [:])
        world.with { $0.replayed = [] }
        inspector = backup.inspector
        inspector.lookAgain()
        let lost = world.with { state in
            state.note("the backup is restored", counting: .restore)
            state.model = backup.model
            state.ledger.restore(backup.ledger)
            state.model.touched = Set(state.model.credentials.map(\.userID))
            return state.apple.signIns.filter { $0.at > backup.takenAt }
        }
        for signIn in lost where chance(500) {
            var told = signIn
            // A backend never sees the tokens of its codes.
            if told.isByCode || chance(500) { told.token = nil }
            agenda.append((truth, .grant(told, address: nil)))
        }
        try await crash()
    }
}
