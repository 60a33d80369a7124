// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension Simulation {
    struct Person {
        var user: String
        var app: SimulatedApp
        /// Whether the app's backend gets a refresh token from this person's sign-ins.
        var bringsToken: Bool
        var lastActedAt: Timestamp
        var address: String
    }

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
    func isVerified(_ person: Person) -> Bool {
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
    mutating func askLater(_ person: Person, _ credential: CredentialID) {
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
}
