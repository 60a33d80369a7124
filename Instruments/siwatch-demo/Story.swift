// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness

/// What people do, act by act, and what the app's backend tells siwatch of it.
struct Story {
    let stage: Stage
    /// Those to whom nothing has happened yet.
    private var people: [Person] = []
    private var revoked: [Person] = []
    /// Revocations that Apple keeps to itself for a while.
    private var withheld: (people: [Person], events: [AppleEvent]) = ([], [])

    init(stage: Stage) {
        self.stage = stage
    }

    mutating func play() async throws {
        try await signUp()
        try await awaitFirstChecks()
        try await switchMail()
        try await revoke()
        try await revokeInSilence()
        try await deleteAccounts()
        try await lie()
        try await signInAgain()
        try await awaitSilentRevocations()
    }

    private mutating func draw(_ count: Int) -> [Person] {
        defer { people.removeFirst(count) }
        return Array(people.prefix(count))
    }

    // MARK: Signing in

    private mutating func signUp() async throws {
        for wave in Script.waves {
            stage.say("\(wave.count) people sign in at \(wave.clientID): one row each in grant_queue.")
            let signIns = try await stage.apple.signIn(wave.count, clientID: wave.clientID)
            try await stage.tell(signIns)
            people += signIns.map(Person.init)
            try await stage.watch(for: Script.beat)
        }
        let both = Array(people.prefix(Script.onBoth))
        stage.say("\(both.count) of them sign in at \(Script.web) too; \(Script.reportedTwice) of these rows come twice.")
        let signIns = try await stage.apple.signInAgain(both, clientID: Script.web)
        try await stage.tell(signIns + signIns.prefix(Script.reportedTwice))
        people.shuffle()
        try await stage.watch(for: Script.beat)
    }

    private func awaitFirstChecks() async throws {
        stage.say("Each token is checked at Apple for the first time.")
        try await stage.watch(for: .seconds(30)) {
            try await stage.backend.int("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NULL") == 0
        }
    }

    // MARK: Changing their minds

    private mutating func switchMail() async throws {
        let all = draw(Script.mailOff)
        let again = Array(all.prefix(Script.mailOnAgain))
        stage.say("\(all.count) people switch off the forwarding of mail.")
        let off = try await stage.apple.events("mail-forwarding", all, ["enabled": false])
        // Of some, Apple will say so only after it has said the opposite.
        try await stage.tell(off.dropFirst(Script.mailReversed))
        try await stage.watch(for: Script.beat)

        stage.say("\(again.count) switch it on again; of \(Script.mailReversed) Apple tells the two in the wrong order.")
        try await stage.tell(stage.apple.events("mail-forwarding", again, ["enabled": true]))
        try await stage.watchUntilSettled()
        try await stage.tell(off.prefix(Script.mailReversed))
        try await stage.watch(for: Script.beat)
    }

    private mutating func revoke() async throws {
        withheld.people = draw(Script.toldLate)
        stage.say("\(withheld.people.count) people revoke, and Apple will be late to say so.")
        withheld.events = try await stage.apple.events("consent-revocations", withheld.people)
        stage.ledger.note(withheld.events)
        for count in Script.revocations {
            let wave = draw(count)
            stage.say("\(count) people revoke; Apple tells \(Script.toldTwice) of the revocations twice.")
            let events = try await stage.apple.events("consent-revocations", wave)
            try await stage.tell(events + events.prefix(Script.toldTwice))
            revoked += wave
            try await stage.watch(for: Script.beat)
        }
    }

    private mutating func revokeInSilence() async throws {
        stage.say("\(Script.silent) people revoke and Apple tells nobody: only the next check of their tokens can find out.")
        stage.ledger.note(try await stage.apple.events("consent-revocations", draw(Script.silent), ["deliver": false]))
        try await stage.watch(for: Script.breath)
    }

    private mutating func deleteAccounts() async throws {
        let leaving = draw(Script.deletions)
        stage.say("\(leaving.count) people delete their Apple Accounts.")
        try await stage.tell(stage.apple.events("account-deletions", leaving))
        try await stage.watch(for: Script.breath)
    }

    /// Says of people who have done nothing that they have revoked.
    private func lie() async throws {
        let kinds = Forgery.allCases.map(\.rawValue).joined(separator: ", ")
        stage.say("Notifications arrive that nobody should believe, \(Script.forgeries) each: \(kinds).")
        for forgery in Forgery.allCases {
            let bodies = try await forgery.bodies(about: Array(people.prefix(Script.forgeries)), by: stage.apple)
            try await stage.tell(bodies, rejectedAs: forgery.reason)
        }
        try await stage.watch(for: Script.breath)
    }

    private mutating func signInAgain() async throws {
        let back = Array(revoked.prefix(Script.backAgain))
        stage.say("\(back.count) who have revoked sign in again.")
        try await stage.tellSignIns(of: back)
        try await stage.watch(for: Script.beat)

        stage.say("So do \(withheld.people.count) of whose revocation Apple tells only now: too late to matter.")
        try await stage.tellSignIns(of: withheld.people)
        try await stage.tell(withheld.events)
        try await stage.watch(for: Script.beat)
    }

    private func awaitSilentRevocations() async throws {
        stage.say("siwatch goes on checking every token until it agrees with Apple.")
        try await stage.watch(for: .seconds(60)) { try await Tally(stage.backend)[.state, "token_rejected"] == Script.silent }
    }
}
