// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTables
import CredentialTesting
import GRDB
import Testing

@testable import SQLiteStore

struct RefreshTests {
    private let monitor = try! Monitor()

    @Test func aValidAnswerIsNotedAndTheNextCheckIsAnIntervalAway() async throws {
        try await monitor.signIn("ann")
        let due = try #require(try await monitor.due("ann"))
        #expect(try await monitor.settle(monitor.refreshHandler) == 0, "nothing is due before the first check")

        monitor.clock.set(to: due)
        #expect(try await monitor.settle(monitor.refreshHandler) == 1)

        let wait = due.duration(to: try #require(try await monitor.due("ann")))
        #expect(wait >= .seconds(86_400) && wait <= .seconds(86_400) * 1.05)
        #expect(try await monitor.value("SELECT verified_at FROM credential_state") == due.milliseconds)
        #expect(monitor.refreshes("valid") == 1)
    }

    /// If Apple was slow before, work with a permit goes out at once: a twelfth of a second's worth at most.
    @Test(arguments: [(1.0, 1), (75, 6), (6_144, 512), (1_000_000, 512)])
    func whatIsClaimedAheadFollowsTheLimits(requestsPerSecond: Double, most: Int) throws {
        #expect(try Monitor(requestsPerSecond: requestsPerSecond).refreshHandler.reserve?.most == most)
    }

    @Test(arguments: [
        EndpointAnswer<RefreshNews>.ambiguous("mixed"), .misconfigured("invalid_client"), .throttled(retryAfter: .seconds(7)),
        .throttled(retryAfter: nil), .unavailable("timeout"), .unavailable("503", retryAfter: .seconds(9)),
    ])
    func whatIsNotAboutTheUserChangesNoState(outcome: EndpointAnswer<RefreshNews>) async throws {
        try await monitor.signIn("ann")
        try await monitor.day()
        monitor.endpoint.answer(outcome)
        for _ in 1...20 {
            try await monitor.day()
            #expect(try await monitor.state(of: "ann") == "authorized granted")
            #expect(try await monitor.due("ann") != nil, "it is asked again")
        }
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_change") == 1)
    }

    @Test func failuresBackOffAndAnAnswerEndsTheBackOff() async throws {
        try await monitor.signIn("ann")
        monitor.endpoint.answer(.unavailable("503"))
        var waits: [Duration] = []
        for _ in 1...9 {
            monitor.clock.set(to: try #require(try await monitor.due("ann")))
            try await monitor.settle(monitor.refreshHandler)
            waits.append(monitor.clock.now.duration(to: try #require(try await monitor.due("ann"))))
        }
        #expect(waits == waits.sorted(), "ever longer")
        #expect(waits[0] < .seconds(60))
        #expect(waits[8] < .seconds(86_400))
        monitor.endpoint.answer(.valid)
        try await monitor.day()
        #expect(try await monitor.count("SELECT failures FROM credential") == 0)
    }

    @Test func aRefreshNeverTouchesTheStoredToken() async throws {
        try await monitor.signIn("ann")
        let sealed = "SELECT hex(sealed_token) || hex(token_fingerprint) || token_granted_at FROM credential"
        let before: String? = try await monitor.value(sealed)
        try await monitor.day()
        #expect(try await monitor.value(sealed) == before)
        #expect(monitor.endpoint.calls.first?.token == Secret("token-of-ann"))
    }

    @Test func misconfigurationPausesTheAppAndSendsOneProbeAtATime() async throws {
        try await monitor.signIn(users: 1...40)
        monitor.endpoint.answer(.misconfigured("invalid_client"))
        monitor.clock.advance(by: .seconds(2 * 86_400))
        _ = try await monitor.loop(monitor.refreshHandler).round()
        let first = monitor.endpoint.calls.count
        #expect(try await monitor.loop(monitor.refreshHandler).round() == 0, "paused")
        #expect(try await monitor.value("SELECT refusal FROM client WHERE refused_at IS NOT NULL") == "invalid_client")

        monitor.clock.advance(by: .seconds(86_400))
        monitor.endpoint.answer(.valid)
        #expect(try await monitor.loop(monitor.refreshHandler).round() == 1, "a single probe")
        try await monitor.settle(monitor.refreshHandler)
        #expect(monitor.endpoint.calls.count > first + 1, "the others follow")
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE state <> 'authorized'") == 0)
        #expect(try await monitor.count("SELECT COUNT(*) FROM client WHERE refused_at IS NOT NULL") == 0)
    }

    @Test func aClientThatAppleRefusesHoldsUpNoCheckOfAnother() async throws {
        for user in 1...20 {
            try await monitor.grant("good\(user)")
            try await monitor.grant("eve\(user)", client: Monitor.clients[1])
            monitor.endpoint.answer(.misconfigured("invalid_client"), for: "eve\(user)")
        }
        try await monitor.settle(monitor.grantHandler)
        monitor.clock.advance(by: .seconds(2 * 86_400))
        let handler = monitor.refreshHandler(breakers: monitor.writer.breakers, trying: Set(Monitor.clients))
        try await monitor.settle(handler)
        func asked() -> Int { monitor.endpoint.calls.count { $0.credential.clientID == Monitor.clients[1] } }
        let first = asked()
        for _ in 1...10 { try await monitor.settle(handler, after: .minutes(2)) }
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL") == 20)
        #expect(asked() < first + 6, "\(first), then \(asked())")
        #expect(try await monitor.storedBreaker?.blamedClients == [Monitor.clients[1]])
    }

    /// Apple refuses a Services ID for good. That says nothing about the App ID, whose users Apple goes on accepting.
    @Test func aClientThatAppleRefusesHidesNobodyWhoHasLeftAnother() async throws {
        for user in ["ann", "bob", "cid"] { try await monitor.grant(user) }
        try await monitor.grant("eve", client: Monitor.clients[1])
        try await monitor.settle(monitor.grantHandler)
        let handler = monitor.refreshHandler(breakers: monitor.writer.breakers, trying: Set(Monitor.clients))
        func live(hours: Int) async throws {
            // Short steps, so that no two users of a client are asked about at the same moment. A 200 of the moment of a rejection
            // proves nothing.
            for _ in 1...(hours * 6) { try await monitor.settle(handler, after: .minutes(10)) }
        }
        try await live(hours: 30)
        monitor.endpoint.answer(.misconfigured("invalid_client"), for: "eve")
        try await live(hours: 30)
        #expect(try await monitor.storedBreaker?.causes == [.blamedClient])
        monitor.endpoint.answer(.rejected, for: "ann")
        // Two intervals.
        try await live(hours: 56)
        #expect(try await monitor.state(of: "ann") == "revoked token_rejected")
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE state = 'authorized'") == 3)
        #expect(try await monitor.storedBreaker?.blamedClients == [Monitor.clients[1]])
    }

    /// I4, for each token.
    @Test func nobodyIsAskedTwiceInAnInterval() async throws {
        for user in 1...50 { try await monitor.grant("user\(user)", at: monitor.clock.now.advanced(by: .seconds(-user * 10_000))) }
        try await monitor.settle(monitor.grantHandler)
        for hour in 0..<96 {
            try await monitor.settle(monitor.refreshHandler, after: .seconds(3600))
            if hour == 30 { for user in 1...25 { try await monitor.grant("user\(user)", token: "newer") } }
            try await monitor.settle(monitor.grantHandler)
        }
        let answers = Dictionary(grouping: monitor.endpoint.calls) { "\($0.credential) \($0.token.reveal)" }
        #expect(answers.count == 75)
        for (_, calls) in answers {
            let times = calls.map(\.sentAt).sorted()
            #expect(!times.isEmpty)
            for (one, next) in zip(times, times.dropFirst()) { #expect(one.duration(to: next) >= .seconds(86_400)) }
        }
    }

    @Test(arguments: [
        (EndpointAnswer<RefreshNews>.throttled(retryAfter: nil), true), (.unavailable("timeout"), true), (.unavailable("status 503"), true),
        (.rejected, false), (.ambiguous("invalid_request"), false), (.valid, false),
    ])
    func whatShowsThatAppleStrugglesHalvesTheRate(outcome: EndpointAnswer<RefreshNews>, halves: Bool) async throws {
        try await monitor.signIn(users: 1...20)
        monitor.endpoint.answer(outcome)
        monitor.clock.advance(by: .seconds(91_000))
        _ = try await monitor.loop(monitor.refreshHandler).round()
        #expect(monitor.budget.rate(at: monitor.clock.now) == (halves ? 5000 : 10_000))
    }

    @Test func aRetryAfterHoldsTheAppBack() async throws {
        try await monitor.signIn(users: 1...200)
        monitor.endpoint.answer(.unavailable("status 503", retryAfter: .seconds(600)))
        monitor.clock.advance(by: .seconds(91_000))
        #expect(try await monitor.loop(monitor.refreshHandler).round() == 64)
        monitor.clock.advance(by: .seconds(599))
        #expect(try await monitor.loop(monitor.refreshHandler).round() == 0)
        monitor.clock.advance(by: .seconds(1))
        #expect(try await monitor.loop(monitor.refreshHandler).round() == 64)
    }

    /// An operator who has just set it up learns whether the key works. The other credentials wait for their minutes.
    @Test func aClientWithoutA200IsTriedAtOnceAndOnceAMinute() async throws {
        let handler = monitor.refreshHandler(breakers: monitor.writer.breakers, trying: Set(Monitor.clients))
        for user in ["ann", "bob", "eve"] { try await monitor.signIn(user) }
        try await monitor.signIn("web", client: Monitor.clients[1])
        monitor.endpoint.answer(.unavailable("503"))
        try await monitor.settle(handler)
        #expect(monitor.endpoint.calls.count == 2, "one of each client")
        try await monitor.settle(handler, after: .milliseconds(59_999))
        monitor.endpoint.answer(.valid)
        try await monitor.settle(handler, after: .milliseconds(1))
        // siwatch has asked about the failed ones again by now, and proven both clients.
        let asked = Set(monitor.endpoint.calls.map(\.credential.userID))
        #expect(asked.count < 4)
        for _ in 1...3 { try await monitor.signIn("late\(asked.count)") }
        try await monitor.settle(handler)
        #expect(Set(monitor.endpoint.calls.map(\.credential.userID)) == asked, "there is nothing to find out")
    }

    /// I4 holds for any key: siwatch does not try a key on a token that it has asked about.
    @Test func anotherKeyIsTriedWithSomebodyWhoWasNeverAskedAbout() async throws {
        let handler = monitor.refreshHandler(breakers: monitor.writer.breakers, trying: Set(Monitor.clients))
        for user in ["ann", "bob"] { try await monitor.signIn(user) }
        try await monitor.settle(handler, after: .seconds(600))
        #expect(monitor.endpoint.calls.count == 2)
        monitor.writer.breakers.forgetProofs(of: Set(Monitor.clients))
        try await monitor.settle(handler, after: .seconds(60))
        #expect(monitor.endpoint.calls.count == 2)
        try await monitor.signIn("eve")
        try await monitor.settle(handler)
        #expect(monitor.endpoint.calls.last?.credential.userID == "eve")
    }

    /// Apple is away for a week. Then all credentials are overdue, and siwatch keeps to its limit.
    @Test func afterAnOutageTheBacklogDrainsAtTheLimitOldestFirst() async throws {
        let monitor = try Monitor(requestsPerSecond: 50)
        try await monitor.signIn(users: 1...2000)
        // First checks have a share of their own.
        try await monitor.execute("UPDATE credential SET first_check = NULL")
        monitor.endpoint.answer(.unavailable("timeout"))
        for _ in 1...7 * 24 {
            monitor.clock.advance(by: .seconds(3600))
            _ = try await monitor.loop(monitor.refreshHandler).round()
        }
        func overdue() async throws -> Int {
            try await monitor.store.overdueCredentials(before: monitor.clock.now, upTo: 100_000)[Monitor.app] ?? 0
        }
        // Let the credentials that were tried last be due, too.
        monitor.clock.advance(by: .seconds(86_400))
        #expect(try await overdue() == 2000)
        let users = "SELECT user_id FROM credential ORDER BY due_at, user_id"
        let order = try await monitor.store.writer.read { db in try String.fetchAll(db, sql: users) }

        monitor.endpoint.answer(.valid)
        let before = monitor.endpoint.calls.count
        let start = monitor.clock.now
        while try await overdue() > 0 {
            try await monitor.settle(monitor.refreshHandler)
            monitor.clock.advance(by: .milliseconds(100))
        }
        let calls = monitor.endpoint.calls[before...]
        #expect(calls.count == 2000, "each once")
        #expect((39...42).contains(start.duration(to: monitor.clock.now).inSeconds), "at the limit, and no faster")
        for second in 0..<40 {
            let from = start.advanced(by: .seconds(second))
            let sent = calls.count { $0.sentAt >= from && $0.sentAt < from.advanced(by: .seconds(1)) }
            #expect(sent <= 60, "\(sent) in second \(second)")
        }
        // Within one round the order of a few is chance.
        let positions = Dictionary(uniqueKeysWithValues: order.enumerated().map { ($1, $0) })
        for (index, call) in calls.enumerated() { #expect(abs(positions[call.credential.userID]! - index) <= 10) }
    }
}
