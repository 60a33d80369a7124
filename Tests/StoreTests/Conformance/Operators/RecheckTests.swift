// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct RecheckTests: ConformanceSuite {
    private static let asked = Timestamp.start + .days(2)

    private func recheck(at now: Timestamp) async throws -> OperatorAnswer.Recheck? {
        guard case .rechecking(let recheck) = try await store.ask(.recheckUser("user"), at: now) else { return nil }
        return recheck
    }

    @Test func aUserIsDueAtOnce() async throws {
        try await store.signIn(token: "r")
        try await store.signIn("another", token: "r")
        #expect(try await recheck(at: .start)?.due == 1)
        #expect(try await store.claimCredentials(at: .start).map(\.id.userID) == ["user"])
        // The check is already under way, and siwatch asks nothing twice.
        #expect(try await recheck(at: .start)?.due == 1)
        #expect(try await store.claimCredentials(at: .start).isEmpty)
    }

    @Test func onceAnHour() async throws {
        try await store.signIn(token: "r")
        try await store.refresh(.valid, at: Self.asked)
        let tooSoon = try await recheck(at: Self.asked + .minutes(59))
        #expect(tooSoon?.due == 0 && tooSoon?.tooSoon == 1 && tooSoon?.soonest == Self.asked + .hours(1))
        #expect(try await store.claimCredentials(at: Self.asked + .minutes(59)).isEmpty)
        #expect(try await recheck(at: Self.asked + .hours(1))?.due == 1)
        #expect(try await store.claimCredentials(at: Self.asked + .hours(1)).count == 1)
    }

    /// Unsigned evidence may be wrong, so siwatch keeps the token for a while to ask again.
    @Test func aGoodAnswerBringsARejectedUserBack() async throws {
        try await store.signIn(token: "r", isAccepted: true)
        try await store.refresh(.rejected, at: Self.asked)
        let now = Self.asked + .hours(2)
        #expect(try await recheck(at: now)?.due == 1)
        try await store.refresh(.valid, at: now)
        let changes = try await store.rows("SELECT from_state, to_state, reason, source FROM credential_change ORDER BY id DESC LIMIT 1")
        #expect(changes == [["revoked", "authorized", "granted", "refresh"]])
        #expect(try await store.claimCredentials(at: now + .days(2)).count == 1)
    }

    @Test func anotherRejectionEndsTheChecksAgain() async throws {
        try await store.signIn(token: "r")
        try await store.refresh(.rejected, at: Self.asked)
        let now = Self.asked + .hours(2)
        _ = try await recheck(at: now)
        try await store.refresh(.rejected, at: now)
        #expect(try await store.claimCredentials(at: now + .days(400)).isEmpty)
        // A held one, too.
        _ = try await recheck(at: now + .hours(2))
        try await store.refresh(nil, at: now + .hours(2))
        #expect(try await store.claimCredentials(at: now + .days(400)).isEmpty)
    }

    @Test func aRecheckWithoutAnAnswerIsTriedAgain() async throws {
        try await store.signIn(token: "r")
        try await store.refresh(.rejected, at: Self.asked)
        let now = Self.asked + .hours(2)
        _ = try await recheck(at: now)
        try await store.settleChecks(at: now, as: .failure(at: now))
        // Other facts about the user do not end it.
        try await store.notify(.emailDisabled(nil), at: now)
        try await store.refresh(.valid, at: now + .minutes(1))
        #expect(try await store.column("SELECT state FROM credential_state") == ["authorized"])
    }

    @Test func whoHasNoTokenCannotBeAskedAbout() async throws {
        #expect(try await store.ask(.recheckUser("user")) == .unknownUser)
        try await store.signIn()
        try await store.signIn(client: "web", token: "r")
        try await store.notify(.consentRevoked, at: .start + .minutes(1))
        try await store.signIn(client: "web", at: .start + .minutes(2))
        let none = try await recheck(at: .start + .hours(2))
        #expect(none?.due == 0 && none?.withoutToken == 2 && none?.soonest == nil)
    }

    @Test func aPausedAppWaits() async throws {
        try await store.signIn(token: "r")
        _ = try await store.ask(.pause(app: "example"))
        #expect(try await recheck(at: .start)?.pausedApps == ["example"])
        #expect(try await store.claimCredentials(at: .start).isEmpty)
        _ = try await store.ask(.resume(app: "example"))
        #expect(try await store.claimCredentials(at: .start).count == 1)
    }

    /// Nobody asks about its tokens, and their old due times must not make the others late.
    @Test func aClientThatLeftStandsInNobodysWay() async throws {
        var rules = StoreUnderTest.recheckRules
        rules.clients = ["app"]
        try await store.signIn("rejected", client: "web", token: "r", isAccepted: true)
        try await store.refresh(.rejected, at: Self.asked - .days(1))
        try await store.signIn(token: "r")
        try await store.refresh(.valid, at: Self.asked - .hours(2))
        try await store.signIn("left", client: "web", token: "r", at: .start - .days(9))
        let answer = try await store.ask(.recheckUser("left"), under: rules, at: Self.asked)
        var left = OperatorAnswer.Recheck()
        left.leftClients = ["web"]
        #expect(answer == .rechecking(left))
        let checks = "SELECT user_id, next_check_at FROM credential_state WHERE user_id <> 'user' ORDER BY user_id"
        let before = try await store.rows(checks)
        _ = try await store.ask(.recheckApp("example"), under: rules, at: Self.asked)
        #expect(before.count == 2)
        #expect(try await store.rows(checks) == before)
        #expect(try await store.column("SELECT next_check_at FROM credential_state WHERE user_id = 'user'") == [.at(Self.asked)])
    }

    /// 600 users at 50 a second take 12 seconds, whatever the size of a transaction.
    @Test func anAppIsSpreadByItsLimit() async throws {
        let columns = "grant_queue (client_id, user_id, refresh_token, granted_at)"
        try await store.insert(600, into: columns, "'app', 'user' || n, 'r' || n, ?", [.at(.start - .days(2))])
        try await store.grant("elsewhere", client: "elsewhere", token: "r", at: .start - .days(2))
        for _ in 0...6 { try await store.settleGrants(at: .start) }
        let before = try await store.column("SELECT user_id FROM credential_state WHERE app = 'example' ORDER BY next_check_at")

        let now = Timestamp.start + .minutes(1)
        let found = try await store.ask(.recheckApp("example"), at: now)
        #expect(found == .recheckingApp(credentials: 600, tooSoon: 0, requestsPerSecond: 50, isPaused: false))
        let after = try await store.rows("SELECT user_id, next_check_at FROM credential_state WHERE app = 'example' ORDER BY next_check_at")
        #expect(after.map { $0[0] } == before)
        #expect(after.map { $0[1] } == (0..<600).map { .at(now + .milliseconds(20 * $0)) })
        #expect(try await store.column("SELECT next_check_at > ? FROM credential_state WHERE app = 'other'", [.at(now + .hours(1))]) == [1])
        #expect(try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: now) == nil)
    }

    /// An operator waits for the answer, and 1,500 checks are late.
    @Test func oneUserGoesBeforeABacklog() async throws {
        for user in 1...20 { try await store.signIn("late\(user)", token: "r", at: .start + .minutes(user)) }
        try await store.signIn(client: "web", token: "r", at: Self.asked - .days(2), now: Self.asked)
        _ = try await store.ask(.recheckUser("user"), at: Self.asked)
        #expect(try await store.claimCredentials(upTo: 1, at: Self.asked).map(\.id.userID) == ["user"])
        #expect(try await store.claimCredentials(upTo: 20, at: Self.asked).count == 20)
    }

    /// siwatch asks about all users of the app: users who were not due come before users who were late.
    @Test func anAppGoesBeforeItsBacklog() async throws {
        for user in 1...3 { try await store.signIn("late\(user)", token: "r", at: .start + .minutes(user)) }
        try await store.run("UPDATE credential SET first_check = NULL")
        for user in 1...3 { try await store.signIn("user\(user)", client: "web", token: "r", at: Self.asked - .days(2), now: Self.asked) }
        _ = try await store.ask(.recheckApp("example"), at: Self.asked)
        let order = try await store.claimCredentials(at: Self.asked).map(\.id.userID)
        #expect(order.prefix(3).allSatisfy { $0.hasPrefix("user") })
        #expect(order.count == 6)
    }

    @Test func anAppIsAskedAboutRejectedTokensFirstAndAboutNobodyTooSoon() async throws {
        for (user, answer) in [("good", RefreshAnswer.Verdict.valid), ("bad", .rejected)] {
            try await store.signIn(user, token: "r")
            try await store.refresh(answer, at: Self.asked)
        }
        try await store.signIn("new", token: "r", at: Self.asked - .days(2), now: Self.asked)
        try await store.signIn("asked", token: "r", at: .start)
        let early = Self.asked + .minutes(30)
        var claimed = try await store.claimCredentials(at: early)
        #expect(claimed.map(\.id.userID) == ["asked"])

        let shown = try await store.ask(.recheckApp("example"), at: early)
        #expect(shown == .recheckingApp(credentials: 4, tooSoon: 2, requestsPerSecond: 50, isPaused: false))
        claimed += try await store.claimCredentials(at: early + .seconds(1))
        #expect(claimed.map(\.id.userID) == ["asked", "new"])
        _ = try await store.settle(claimed.map { .refresh($0, .valid(at: early)) }, at: early + .seconds(2))

        // The others wait until siwatch may ask Apple again.
        #expect(try await store.claimCredentials(at: Self.asked + .minutes(59)).isEmpty)
        #expect(try await store.claimCredentials(at: Self.asked + .hours(1)).map(\.id.userID).sorted() == ["bad", "good"])
    }

    @Test func anAppIsAskedAboutRejectedTokensFirst() async throws {
        for (user, answer) in [("good", RefreshAnswer.Verdict.valid), ("bad", .rejected)] {
            try await store.signIn(user, token: "r")
            try await store.refresh(answer, at: Self.asked)
        }
        let late = Self.asked + .minutes(61)
        _ = try await store.ask(.recheckApp("example"), at: late)
        #expect(try await store.claimCredentials(at: late).map(\.id.userID) == ["bad"])
        #expect(try await store.claimCredentials(at: late + .seconds(1)).map(\.id.userID) == ["good"])
    }

    /// The operator corrects a mistake at once, so its rejections are still pending. siwatch drops them and asks about their users again.
    @Test func aRejectionThatWaitsIsTakenBackAndSaidAgainAfterTheHour() async throws {
        try await store.signIn(token: "r", isAccepted: true)
        let rejection = PendingRejection(requestedAt: Self.asked, answeredAt: Self.asked, keyID: "KEY")
        let claimed = try await store.claimCredentials(at: Self.asked)
        _ = try await store.settle(claimed.map { .refresh($0, .rejected(rejection, isProven: true)) }, at: Self.asked)
        #expect(try await store.count("credential WHERE pending_since IS NOT NULL") == 1)
        let found = try await store.ask(.recheckApp("example"), at: Self.asked + .minutes(5))
        #expect(found == .recheckingApp(credentials: 1, tooSoon: 1, requestsPerSecond: 50, isPaused: false))
        #expect(try await store.count("credential WHERE pending_since IS NOT NULL") == 0)
        #expect(try await store.claimCredentials(at: Self.asked + .minutes(59)).isEmpty)
        #expect(try await store.claimCredentials(at: Self.asked + .hours(1)).count == 1)
    }

    /// An operator who corrects a mistake within the hour brings back all users that it ended.
    @Test func aUserWhoWasRejectedByMistakeWithinTheHourComesBackAfterIt() async throws {
        try await store.signIn(token: "r", isAccepted: true)
        try await store.refresh(.rejected, at: Self.asked)
        let mended = Self.asked + .minutes(20)
        let read = try await store.ask(.recheckApp("example"), at: mended)
        #expect(read == .recheckingApp(credentials: 1, tooSoon: 1, requestsPerSecond: 50, isPaused: false))
        // After two requests siwatch asks once.
        _ = try await store.ask(.recheckApp("example"), at: mended + .minutes(1))
        #expect(try await store.claimCredentials(at: Self.asked + .minutes(59)).isEmpty)
        try await store.refresh(.valid, at: Self.asked + .hours(1))
        #expect(try await store.column("SELECT state FROM credential_state") == ["authorized"])
    }
}
