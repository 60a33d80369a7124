// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

extension Simulation {
    /// A person signs in, leaves, deletes the account, changes the password or turns forwarding off.
    mutating func act() {
        let index = Int.random(in: people.indices, using: &generator)
        guard mayAct(people[index]) else { return }
        let person = people[index]
        people[index].lastActedAt = truth
        // Most act at a client that is missing from the configuration, while there is one.
        let missing = person.app.clientIDs.first { $0 == dropped?.clientID && chance(700) }
        let client = missing ?? person.app.clientIDs.randomElement(using: &generator)!
        let credential = CredentialID(clientID: client, userID: person.user)
        let roll = Int.random(in: isCanary(person.user) ? 65..<100 : 0..<100, using: &generator)
        let isIn = world.with { state in
            person.app.clientIDs.contains {
                let signIn = state.apple.newestSignIn(of: CredentialID(clientID: $0, userID: person.user))
                return signIn != nil && signIn?.endedAt == nil
            }
        }
        if plan.tellsAgain, !isCanary(person.user), chance(100) {
            tellAgain(credential)
        } else if plan.revocations > 0, chance(10) {
            // An operator of the app ran a query that was too wide.
            let deleted = people.filter { $0.app == person.app && !isCanary($0.user) }
            for other in deleted { requestRevocation(other, CredentialID(clientID: client, userID: other.user)) }
            if deleted.count > 1 { world.with { $0.count(.bulkDeletion) } }
        } else if !isCanary(person.user), chance(plan.revocations) {
            requestRevocation(person, credential)
        } else if isIn, isVerified(person), !isCanary(person.user), chance(plan.passwords) {
            changePassword(person)
        } else if !isIn || roll < 20 {
            signIn(person, credential)
        } else if roll < 45 {
            post(world.with { $0.apple.end(person.user, of: person.app, as: .consentRevoked, client: client, at: $0.truth) }, of: person)
        } else if roll < 55 {
            post(world.with { $0.apple.end(person.user, of: person.app, as: .accountDeleted, client: client, at: $0.truth) }, of: person)
        } else if roll < 65 {
            changePassword(person)
        } else if roll < 90 {
            let kind: ScriptedApple.Notice.Kind = chance(500) ? .emailDisabled : .emailEnabled
            let address = chance(500) ? person.address : nil
            post(world.with { $0.apple.sign(kind, credential, of: person.app, address: address, at: $0.truth) }, of: person)
        } else if roll < 95 {
            post(world.with { $0.apple.sign(.unknown, credential, of: person.app, at: $0.truth) }, of: person)
        } else {
            post(world.with { $0.apple.forge() }, of: person)
        }
    }

    /// Nobody does two things within a second, because Apple dates sign-ins so. siwatch takes a wrongly dated one three seconds early.
    private func mayAct(_ person: Person) -> Bool { person.lastActedAt.duration(to: truth) >= .seconds(plan.datesWrongly ? 5 : 2) }

    mutating func act(_ user: String, _ body: (inout Simulation, Person) -> Void) {
        guard let index = people.firstIndex(where: { $0.user == user }), mayAct(people[index]) else { return }
        people[index].lastActedAt = truth
        body(&self, people[index])
    }

    /// Whether Apple has accepted a token of this person, by the committed facts.
    private func isVerified(_ person: Person) -> Bool {
        world.with { state in
            person.app.clientIDs.contains { state.model.row(of: CredentialID(clientID: $0, userID: person.user))?.verifiedAt != nil }
        }
    }

    /// Ends every token. Apple sends no notification.
    mutating func changePassword(_ person: Person) {
        world.with { state in
            state.apple.changePassword(of: person.user, at: state.truth)
            state.note("\(person.user) changes the password")
        }
        // Some do it on their way out.
        if plan.revocations > 0, chance(900) { askLater(person, CredentialID(clientID: person.app.clientIDs[0], userID: person.user)) }
    }

    /// The person deletes the account some minutes later.
    private mutating func askLater(_ person: Person, _ credential: CredentialID) {
        let asked = truth.advanced(by: .seconds(Int.random(in: 10...600, using: &generator)))
        agenda.append((asked, .request(ReferenceModel.RequestRow(credential: credential, requestedAt: asked))))
    }

    mutating func signIn(_ person: Person, _ credential: CredentialID) {
        if !isCanary(person.user), chance(plan.codes) { return signInByCode(person, credential) }
        // A backend may get a token from one sign-in and none from the next.
        let bringsToken = person.bringsToken && !chance(200)
        let signIn = world.with { state in
            let isBack = state.apple.newestSignIn(of: credential)?.endedAt != nil
            if isBack { state.count(.cameBack) }
            state.note("\(person.user) signs in at \(credential.clientID)")
            // The id_token names the second, rounded down.
            return state.apple.signIn(credential, at: state.truth.second, withToken: bringsToken)
        }
        let address = chance(300) ? person.address : nil
        let delay: Duration = plan.delaysGrants && chance(400) ? .seconds(Int.random(in: 1...20_000, using: &generator)) : .zero
        var told = plan.importsTokens && !isCanary(person.user) && chance(250) ? withImportedToken(signIn, person) : signIn
        if plan.datesWrongly, !isCanary(person.user), chance(400) {
            // A sign-in that is dated ahead waits for its time, and has no untrue consequence.
            let ahead = chance(600) ? 4...400 : -90_000...7_200
            told.at = told.at.advanced(by: .seconds(Int.random(in: ahead, using: &generator)))
            world.with { state in
                if told.at < signIn.at { state.misdated.insert(person.user) } else { state.datedAhead.insert(person.user) }
                state.count(.misdatedSignIn)
            }
            let lead = signIn.at.duration(to: told.at)
            if lead > .zero, bringsToken, chance(800) {
                // The person loses the token and gets another one before that time.
                agenda.append((truth.advanced(by: lead / 2), .passwordChange(credential)))
                agenda.append((truth.advanced(by: lead * 3 / 4), .signIn(credential)))
            }
        }
        agenda.append((truth.advanced(by: delay), .grant(told, address: address)))
        if told.token != signIn.token, plan.revocations > 0, chance(700) { askLater(person, credential) }
        // A backend that got no answer inserts again.
        if chance(100) { agenda.append((truth.advanced(by: delay + .seconds(30)), .grant(told, address: address))) }
    }

    /// A nightly job of the backend reports its stored token again, as if it came with a sign-in now.
    private mutating func tellAgain(_ credential: CredentialID) {
        let kept = world.with { state in state.apple.tokens(of: credential.userID).filter { state.apple.wasIssued($0, to: credential) } }
        guard let token = kept.randomElement(using: &generator) else { return }
        world.with { state in
            // Where the job overtakes the sign-in's own row, siwatch takes it for a sign-in of now.
            if !state.model.knows(token, of: credential) { state.toldByJob.insert(credential) }
            state.note("the backend tells \(token) again")
        }
        agenda.append((truth, .grant(ScriptedApple.SignIn(credential: credential, at: truth.second, token: token), address: nil)))
    }

    func isCanary(_ user: String) -> Bool { plan.canaries.values.contains { $0.contains(user) } }

    /// A sign-in from a backend that stored a wrong token: the user's first one, one of another client, or a truncated one.
    private mutating func withImportedToken(_ signIn: ScriptedApple.SignIn, _ person: Person) -> ScriptedApple.SignIn {
        var told = signIn
        // Some backends mix up two users.
        let owner = chance(600) ? people.randomElement(using: &generator)!.user : person.user
        let known = world.with { $0.apple.tokens(of: owner) }
        told.token = chance(200) ? "cut off " + signIn.credential.userID : known.randomElement(using: &generator)
        if told.token != signIn.token {
            world.note("the backend has \(told.token ?? "no token") of \(person.user)", counting: .importedToken)
        }
        return told
    }

    /// A user signs in again while siwatch asks Apple, or between the claim of a rejection and the moment at which siwatch believes it.
    mutating func comeBack(_ credential: CredentialID) throws {
        // In the calm no user comes back to a refused client, because Apple would blame it too late for siwatch to know all by the end.
        let isRefused = steps >= plan.steps && world.with { $0.apple.refused == credential.clientID }
        guard !isOver, !isRefused, let index = people.firstIndex(where: { $0.user == credential.userID }),
            // A row may name a wrong user.
            people[index].app.clientIDs.contains(credential.clientID),
            people[index].lastActedAt.duration(to: truth) >= .seconds(2)
        else { return }
        people[index].lastActedAt = truth
        returnedAt = now
        signIn(people[index], credential)
        try advance(by: .milliseconds(1))
    }

    private mutating func post(_ number: Int, of person: Person) {
        world.with { state in
            if case .notice(let notice) = state.apple.posts[number] { state.note("\(person.user): \(notice.kind.rawValue)") }
        }
        if plan.losesNotifications, chance(400) {
            // Some users delete their account in the app as well.
            if plan.revocations > 0, chance(500) { askLater(person, CredentialID(clientID: person.app.clientIDs[0], userID: person.user)) }
            return
        }
        let copies = chance(200) ? Int.random(in: 2...3, using: &generator) : 1
        for _ in 0..<copies {
            let isLate = chance(250)
            let delay = Duration.seconds(Int.random(in: isLate ? 60...90_000 : 0...30, using: &generator))
            agenda.append((truth.advanced(by: delay), .post(number)))
        }
    }

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
