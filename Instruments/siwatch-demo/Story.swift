// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness

/// The people's actions, act by act, and what the app's backend and Apple tell siwatch through its HTTP door.
struct Story {
    let stage: Stage
    /// People who have done nothing yet.
    private var people: [SignIn] = []
    private var revoked: [SignIn] = []
    private var withheld: (people: [SignIn], events: [SignedNotification]) = ([], [])

    init(stage: Stage) { self.stage = stage }
    private var site: Site { stage.site }

    mutating func play() async throws {
        try await signUp()
        try await switchMail()
        try await revoke()
        try await revokeInSilence()
        try await deleteAccounts()
        try await leave()
        try await lie()
        try await comeBack()
        try await awaitSilentRevocations()
    }

    private mutating func draw(_ count: Int) -> [SignIn] {
        defer { people.removeFirst(count) }
        return Array(people.prefix(count))
    }

    private func events(
        _ event: some PeopleEvent,
        _ people: [SignIn],
        _ emission: Emission = Emission()
    ) async throws -> [SignedNotification] {
        try await site.apple.notify(event, users: people.map(\.userID), emission)
    }

    private func signIn(_ signIns: [SignIn]) async throws {
        site.note { $0.tell(codesOf: signIns) }
        try await stage.backend.signIn(signIns, through: stage.siwatch)
    }

    private func signInAgain(_ people: [SignIn]) async throws {
        for (clientID, people) in Dictionary(grouping: people, by: \.clientID) {
            try await signIn(site.apple.signInByCode(people.map(\.userID), clientID: clientID))
        }
    }

    private func tell(_ notifications: some Collection<SignedNotification>) async throws {
        site.note { $0.tell(notifications) }
        try await stage.post(notifications.map(\.body), expecting: 200)
    }

    // MARK: Signing in

    private mutating func signUp() async throws {
        for wave in Script.waves {
            stage.say("\(wave.count) people sign in at \(wave.clientID): siwatch exchanges each code, and the backend begins a session.")
            let signIns = try await site.apple.signInByCode(wave.count, clientID: wave.clientID)
            try await signIn(signIns)
            people += signIns
            try await stage.watch(for: Script.beat)
        }
        let both = Array(people.prefix(Script.onBoth))
        stage.say(
            "\(both.count) of them sign in at \(Script.web) too; \(Script.reportedTwice) of these codes come twice, and Apple takes each once."
        )
        let signIns = try await site.apple.signInByCode(both.map(\.userID), clientID: Script.web)
        try await signIn(signIns)
        try await signIn(Array(signIns.prefix(Script.reportedTwice)))
        people.shuffle()
        try await stage.watch(for: Script.beat)
    }

    // MARK: Changing their minds

    private mutating func switchMail() async throws {
        let all = draw(Script.mailOff)
        let again = Array(all.prefix(Script.mailOnAgain))
        stage.say("\(all.count) people switch off the forwarding of mail.")
        let off = try await events(SwitchForwarding(on: false), all)
        // For some, Apple reports this only after it has reported the opposite.
        try await tell(off.dropFirst(Script.mailReversed))
        try await stage.watch(for: Script.beat)

        stage.say("\(again.count) switch it on again; of \(Script.mailReversed) Apple tells the two in the wrong order.")
        try await tell(events(SwitchForwarding(on: true), again))
        try await stage.watch(for: .seconds(30)) { try await Tally(of: site.backend).total(.queue) == 0 }
        try await tell(off.prefix(Script.mailReversed))
        try await stage.watch(for: Script.beat)
    }

    private mutating func revoke() async throws {
        withheld.people = draw(Script.toldLate)
        stage.say("\(withheld.people.count) people revoke, and Apple will be late to say so.")
        withheld.events = try await events(RevokeConsent(), withheld.people)
        site.note(withheld.events)
        for count in Script.revocations {
            let wave = draw(count)
            stage.say("\(count) people revoke; Apple tells \(Script.toldTwice) of the revocations twice.")
            let events = try await events(RevokeConsent(), wave)
            try await tell(events + events.prefix(Script.toldTwice))
            revoked += wave
            try await stage.watch(for: Script.beat)
        }
    }

    private mutating func revokeInSilence() async throws {
        stage.say("\(Script.silent) people revoke and Apple tells nobody: only the next check of their tokens can find out.")
        site.note(try await events(RevokeConsent(), draw(Script.silent), Emission { $0.deliver = false }))
        try await stage.watch(for: Script.breath)
    }

    private mutating func deleteAccounts() async throws {
        let leaving = draw(Script.deletions)
        stage.say("\(leaving.count) people delete their Apple Accounts.")
        try await tell(events(DeleteAccounts(), leaving))
        try await stage.watch(for: Script.breath)
    }

    private mutating func leave() async throws {
        let leaving = draw(Script.leavers)
        stage.say(
            "\(leaving.count) people delete their accounts in the app: siwatch revokes them at Apple, and keeps a receipt once it is proved."
        )
        site.note { $0.tell(leaving: leaving.map(\.userID), at: .now()) }
        try await stage.backend.delete(leaving, through: stage.siwatch)
        try await stage.watch(for: .seconds(60)) { try await site.backend.int("SELECT COUNT(*) FROM revocation_queue") == 0 }
    }

    /// Posts false revocations of people who have done nothing. siwatch must refuse each, or keep it in the quarantine for its reason.
    private func lie() async throws {
        let dayBeforeYesterday = Moment.now(aheadBy: .seconds(-172_800))
        // siwatch keeps five a minute of what Apple did not sign: all that are forged, and none that is garbled.
        let lies: [(kind: String, emission: Emission, status: Int, reason: String?)] = [
            ("forged", Emission { $0.signature = .forged }, 401, "bad_signature"),
            ("garbled", Emission(), 400, nil),
            ("misdirected", Emission { $0.audience = .exactly("com.example.other") }, 200, "wrong_audience"),
            ("expired", Emission { $0.issuedAt = dayBeforeYesterday }, 200, "expired"),
        ]
        let kinds = lies.map(\.kind).joined(separator: ", ")
        stage.say("Notifications arrive that nobody should believe, \(Script.forgeries) each: \(kinds).")
        for lie in lies {
            let claims = try await events(FalseEvent(.consentRevoked), Array(people.prefix(Script.forgeries)), lie.emission)
            let bodies = claims.map { lie.kind == "garbled" ? String($0.body.dropLast($0.body.count / 2)) : $0.body }
            if let reason = lie.reason { site.note { $0.tell(rejected: bodies.count, as: reason) } }
            try await stage.post(bodies, expecting: lie.status)
        }
        try await stage.watch(for: Script.breath)
    }

    private func comeBack() async throws {
        let back = Array(revoked.prefix(Script.backAgain))
        stage.say("\(back.count) who have revoked sign in again.")
        try await signInAgain(back)
        try await stage.watch(for: Script.beat)

        stage.say("So do \(withheld.people.count) of whose revocation Apple tells only now: too late to matter.")
        try await signInAgain(withheld.people)
        try await tell(withheld.events)
        try await stage.watch(for: Script.beat)
    }

    private func awaitSilentRevocations() async throws {
        stage.say("siwatch goes on checking every token until it agrees with Apple.")
        try await stage.watch(for: .seconds(60)) { try await Tally(of: site.backend)[.state, "token_rejected"] == Script.silent }
    }
}

/// How many people do each thing, and at what pace.
enum Script {
    static let app = SimulatedApple.clientIDs[0]
    static let web = SimulatedApple.clientIDs[1]

    /// People who sign in together, and where.
    static let waves = [(count: 250, clientID: app), (count: 300, clientID: web), (count: 250, clientID: app), (count: 200, clientID: web)]
    static let people = waves.map(\.count).reduce(0, +)
    /// How many of them the backend signs in at a time.
    static let concurrentSignIns = 50
    /// People of the first wave who sign in on the web too.
    static let onBoth = 100
    /// Sign-ins whose code the backend sends twice.
    static let reportedTwice = 25

    static let mailOff = 60
    /// People with mail off who switch it on again.
    static let mailOnAgain = 20
    /// People with mail on again whose events reach siwatch in the wrong order.
    static let mailReversed = 10

    /// Revocations that Apple reports at once, by wave.
    static let revocations = [30, 30, 20]
    /// Revocations of each wave that Apple reports twice.
    static let toldTwice = 10
    /// Revocations that Apple reports only after the person has signed in again.
    static let toldLate = 10
    /// Revocations that Apple never reports.
    static let silent = 30
    static let deletions = 40
    /// People who delete their accounts in the app, so that it must revoke them at Apple.
    static let leavers = 40
    /// Notifications of each bad kind: not from Apple, not for our app, or too old.
    static let forgeries = 5
    /// People with a known revocation who sign in again.
    static let backAgain = 20

    /// How often siwatch checks a token. With the real Apple it is a day.
    static let interval = Duration.seconds(4)
    /// Enough to ask about all people once per interval, with room to spare.
    static let requestsPerSecond = 1000
    /// The pause between two steps, so that an eye can follow.
    static let beat = Duration.milliseconds(700)
    static let breath = Duration.milliseconds(1400)
}

extension Duration {
    var milliseconds: Int { Int(self / .milliseconds(1)) }
}
