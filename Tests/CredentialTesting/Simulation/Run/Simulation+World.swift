// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

extension Simulation {
    mutating func changeWeather() {
        if let client = plan.refused, chance(200) {
            world.with { state in
                state.apple.refused = client
                state.note("Apple refuses \(client) for good")
            }
        }
        let app = plan.apps.randomElement(using: &generator)!
        var weather = chance(500) ? plan.weathers.randomElement(using: &generator) : nil
        // A token that siwatch checks once a day, with an incident at each check, is beyond help.
        switch weather {
        case .massRejection, .refreshesRejected: if !struck.insert(app.name).inserted { weather = nil }
        case .outage, .throttling, .invalidClient, .wrongKey, .wrongClient, .ambiguous, .slow, .namesNobody, nil: break
        }
        let old = world.with { $0.apple.weather[app.name] }
        // A mistake comes with a configuration, and goes with another.
        if weather != old, weather?.isOurFault ?? false || old?.isOurFault ?? false { reload(app, isRight: weather?.isOurFault != true) }
        world.with { state in
            state.apple.weather[app.name] = weather
            state.note("\(app.name): \(weather.map { "\($0)" } ?? "fair weather")")
        }
    }

    /// Loads another configuration, with a new key or with the first one.
    mutating func reload(_ app: SimulatedApp, isRight: Bool = false) {
        // A key belongs to one team.
        let isFirst = isRight && chance(300) && world.with { $0.apple.team(of: app.clientIDs[0]) == 0 }
        world.with { state in
            state.apple.reload(app, withFirstKey: isFirst)
            state.ledger.proofs.reloaded(app.clientIDs)
            state.note("\(app.name) has another key: \(isFirst ? "the first" : "a new one")")
        }
        process.writer.breakers.forgetProofs(of: Set(app.clientIDs))
        let index = plan.apps.firstIndex(of: app)!
        process.atWork[index].budget.resume()
        process.atWork[index].codeBudget.resume()
        lastProbes[app] = nil
    }

    /// Some days lie between two transfers. siwatch needs them to prove the new team and to give up tokens of the old one.
    var mayTransfer: Bool { transferredAt.map { $0.duration(to: truth) > .days(3) } ?? true }

    /// An app moves to another team, or comes back. Its operators configure that team and a key of it, for the next start.
    mutating func transfer(_ app: SimulatedApp, inMidProof: Bool = false) throws {
        transferredAt = truth
        // A mistyped team comes with the old key.
        let keepsKey = chance(inMidProof ? 700 : 200)
        world.with { state in
            state.apple.transfer(app, withTokens: plan.tokensMove)
            if !keepsKey { state.apple.reload(app) }
            state.ledger.proofs.reloaded(app.clientIDs)
            state.note("\(app.name) changes hands", counting: inMidProof ? .teamChangedInMidProof : .teamChanged)
        }
        // Some users sign in because of the transfer, and some leave.
        for (index, person) in people.enumerated() where person.app == app && !isCanary(person.user) {
            guard person.lastActedAt.duration(to: truth) >= .seconds(2) else { continue }
            people[index].lastActedAt = truth
            let credential = CredentialID(clientID: app.clientIDs.randomElement(using: &generator)!, userID: person.user)
            if plan.revocations > 0, chance(isVerified(person) ? 800 : 50) {
                askLater(person, credential)
            } else if chance(500) {
                signIn(person, credential)
            }
        }
        throw Crash()
    }

    mutating func turnKeys() {
        let app = plan.apps.randomElement(using: &generator)!
        guard chance(500) else { return reload(app) }
        world.with { state in
            state.apple.rotateSigningKey()
            state.note("Apple signs with another key")
        }
    }

    /// An operator or NTP sets the clock: ahead, behind, or right again.
    mutating func setClock() async throws {
        try await land()
        // Sign-ins are in hand meanwhile, if an event waits for one.
        if world.with({ $0.model.anEventAwaitsAnUntriedSignIn(at: $0.now) }) { try await claimGrants() }
        let ahead: Duration =
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<40: .zero
            case 40..<60: .seconds(Int.random(in: 60...7_200, using: &generator))
            case 60..<75: .seconds(86_400 * Int.random(in: 1...8, using: &generator))
            default: .seconds(Int.random(in: Self.furthestBehind ... -60, using: &generator))
            }
        try await setClock(ahead: ahead)
    }

    /// The loops turn within a second, even without due work, and bring back due times that are too far ahead.
    mutating func setClock(ahead: Duration) async throws {
        // The earlier commits did not know the rows that arrive now.
        try check()
        world.with { $0.setClock(ahead: ahead) }
        _ = process.clockGuard.trusted
        lastProbes = [:]
        let inHand = claimed
        claimed = []
        try await claimNotifications()
        if !inHand.isEmpty {
            // Events are settled before the sign-ins in hand.
            world.with { $0.count(.clockStepWithSignInInHand) }
            try await land()
            claimed = inHand
        }
        try await claimGrants()
        try await claimCodes()
        try await claimRevocations()
        for app in plan.apps.indices { try await claimCredentials(of: app) }
    }

    private static let furthestBehind = -90_000

    /// - Parameter calls: calls of the store that work before that.
    mutating func troubleStore(after calls: Int = 0) {
        let troubles: [SimulatedWorld.StoreTrouble] = [.busy, .full, .unknownBefore, .unknownAfter]
        var next = [SimulatedWorld.StoreTrouble?](repeating: nil, count: calls)
        for _ in 1...Int.random(in: 1...3, using: &generator) { next.append(troubles.randomElement(using: &generator)) }
        world.with { $0.storeTrouble = next }
    }
}

extension Timestamp {
    /// Rounded down to the second.
    var second: Timestamp { Timestamp(milliseconds: milliseconds / 1000 * 1000) }
}

extension ScriptedApple {
    /// Loads a configuration with another key of ours.
    mutating func reload(_ app: SimulatedApp, withFirstKey isFirst: Bool = false) {
        let load = identities[app.name].map { $0.load + 1 } ?? 1
        identities[app.name] = (keyID: isFirst ? 0 : load, load: load)
    }
}
