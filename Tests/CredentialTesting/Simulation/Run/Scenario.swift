// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// A known disaster with a beginning and an end, and any number of users.
///
/// All users have signed in before. During and around it some leave, and Apple reports every second departure. Two of the longest intervals
/// and the settle time later, siwatch must know all departures, have revoked no other user, and have asked about no token twice in a day.
package enum Scenario: String, Sendable, CaseIterable {
    /// Apple is down for a day.
    case outage
    /// For an hour Apple answers `invalid_grant` to every question.
    case massRejection
    /// For a day and a half Apple answers `invalid_grant` to every question about an app with few users.
    case longRejection
    /// For an hour Apple answers `invalid_client`.
    case invalidClient
    /// For three hours Apple answers 429.
    case throttling
    /// The key is wrong from the first start on, for three days.
    case wrongKey
    /// Operators change the key while everything runs.
    case keyRotation
    /// Apple works, and fifteen users leave in the same moment.
    case burst
    /// Apple refuses the second client of the app, and goes on refusing it. siwatch must know the departures from the first all the same.
    case refusedClient
    /// Six in ten users leave, without a notification. The breaker opens, and an operator confirms that the rejections are real.
    case massWithdrawal
    /// For a day Apple answers `invalid_grant` to every question. An operator confirms that by mistake, when Apple is well again.
    case mistakenConfirmation

    private static let hour = Duration.seconds(3600)

    var weather: Weather? {
        switch self {
        case .outage: .outage
        case .massRejection, .longRejection, .mistakenConfirmation: .massRejection(1)
        case .invalidClient: .invalidClient
        case .throttling: .throttling(retryAfter: nil)
        case .wrongKey: .wrongKey
        case .keyRotation, .burst, .refusedClient, .massWithdrawal: nil
        }
    }

    /// How long everything works before the disaster. By then Apple has accepted each token twice, so that every client is proven.
    var start: Duration { self == .wrongKey ? .zero : Self.hour * 50 }

    var length: Duration {
        switch self {
        case .outage: Self.hour * 24
        case .massRejection, .invalidClient, .keyRotation, .burst: Self.hour
        case .throttling: Self.hour * 3
        // A blame drops the pending rejections. By then siwatch has asked about every token, so that the first blame has come.
        case .refusedClient, .massWithdrawal, .mistakenConfirmation: Self.hour * 26
        case .longRejection: Self.hour * 36
        case .wrongKey: Self.hour * 72
        }
    }

    /// How often somebody looks at what is due and cannot go on. The checks of a refused client are due for days.
    var look: Duration { .seconds(self == .refusedClient ? 300 : 60) }

    /// The number of users in the disaster, for a requested number.
    package func users(of wanted: Int) -> Int {
        switch self {
        case .wrongKey, .longRejection: min(wanted, 5)
        // Fewer open no breaker, so that there is nothing to confirm.
        case .massWithdrawal, .mistakenConfirmation: max(wanted, 40)
        default: wanted
        }
    }

    package func timed(users: Int, on databases: SimulatedDatabases = .memory) async -> (report: Simulation.Report, took: Duration) {
        let start = ContinuousClock.now
        let report = await run(users: users, on: databases)
        return (report, .now - start)
    }

    private func run(users: Int, on databases: SimulatedDatabases) async -> Simulation.Report {
        let repeatLine = "make simulate SEEDS=1 USERS=\(users)\(databases.option)"
        do {
            // Only the scenario's events happen.
            let app = SimulatedApp(name: "example", clientIDs: self == .refusedClient ? ["app", "web"] : ["app"])
            let plan = Simulation.Plan(apps: [app], users: self.users(of: users))
            var simulation = try await Simulation(seed: 1, plan: plan, on: databases.take())
            try await simulation.play(self)
            try simulation.database.release()
            var report = simulation.report
            report.repeatLine = repeatLine
            return report
        } catch {
            return Simulation.Report(seed: 1, repeatLine: repeatLine, failure: error)
        }
    }
}

extension Simulation {
    mutating func play(_ scenario: Scenario) async throws {
        try everybodySignsIn()
        try await live(for: scenario.start, scenario.look)
        turn(scenario, isOn: true)
        if scenario == .burst { leave(15) }
        if scenario == .massWithdrawal {
            for person in people.prefix(people.count * 6 / 10) {
                _ = world.with { $0.apple.end(person.user, of: person.app, as: .consentRevoked, client: "app", at: $0.now) }
            }
        }
        for _ in 0..<4 {
            leave(max(plan.users / 200, 1))
            try await live(for: scenario.length / 4, scenario.look)
        }
        turn(scenario, isOn: false)
        if scenario == .massWithdrawal || scenario == .mistakenConfirmation { try await confirmOnce() }
        // Plus the time in which the last answers come.
        let policy = SimulatedProcess.policy
        try await live(for: policy.longestInterval + policy.repetition + BreakerRules().settle + scenario.look, scenario.look)
        if scenario == .burst, report.tally[.held] != nil {
            world.report(Violation(.nothingIsStuck, "the breaker opened on people who left"))
        }
        checkEnd()
        await abandon()
    }

    private mutating func turn(_ scenario: Scenario, isOn: Bool) {
        let app = plan.apps[0]
        // Another configuration ends a mistake of ours.
        if isOn ? scenario == .keyRotation : scenario.weather?.isOurFault ?? false { reload(app) }
        world.with { state in
            state.apple.weather[app.name] = isOn ? scenario.weather : nil
            if scenario == .refusedClient { state.apple.refused = app.clientIDs.last }
            state.note("\(scenario) \(isOn ? "begins" : "ends")")
        }
    }

    /// An operator confirms once. An hour later siwatch has asked anew about each dropped rejection, and takes nobody for gone who is not.
    private mutating func confirmOnce() async throws {
        let app = plan.apps[0]
        let doubted = try doubted(in: app)
        if !process.writer.breakers.breaker(of: app.name).isOpen || doubted.isEmpty {
            world.report(Violation(.nothingIsStuck, "there is no open breaker to confirm"))
        }
        try await confirm(doubted, in: app)
        try await live(for: .seconds(3720), .seconds(60))
        world.with { state in
            for (credential, _) in doubted {
                let isSignedIn = state.apple.newestSignIn(of: credential).map { $0.endedAt == nil } ?? false
                let found = state.model.row(of: credential)?.reason ?? "nothing"
                if isSignedIn == (found == "granted") { continue }
                state.report(Violation(.nothingIsStuck, "\(credential.name) is \(found) an hour after an operator's confirmation"))
            }
        }
    }

    /// Sign-ins over a day at all clients, reported a day later, so that their checks spread over a day too.
    private mutating func everybodySignsIn() throws {
        let day = 86_400
        for (number, person) in people.enumerated() {
            let credential = CredentialID(clientID: person.app.clientIDs[number % person.app.clientIDs.count], userID: person.user)
            let at = now.advanced(by: .seconds(-2 * day + day * number / people.count))
            agenda.append((now, .grant(world.with { $0.apple.signIn(credential, at: at, withToken: true) }, address: nil)))
        }
        try advance(by: .zero)
    }

    /// Some users leave, and every second notification of Apple is lost.
    private mutating func leave(_ count: Int) {
        for turn in 0..<count {
            let person = people[Int.random(in: people.indices, using: &generator)]
            let post = world.with { $0.apple.end(person.user, of: person.app, as: .consentRevoked, client: "app", at: $0.now) }
            if turn % 2 == 1 { agenda.append((now.advanced(by: .seconds(10)), .post(post))) }
        }
    }

    /// Runs everything that is due, look after look.
    private mutating func live(for duration: Duration, _ look: Duration) async throws {
        let end = now.advanced(by: duration)
        while now < end, !isBroken {
            try await workOff()
            try check()
            steps += 1
            let isExhausted = process.refreshes.contains { $0.retryDelay() != nil }
            let next = isExhausted ? now.advanced(by: .milliseconds(200)) : max(try nextDue() ?? end, now.advanced(by: look))
            try advance(by: now.duration(to: min(next, end)))
        }
    }
}
