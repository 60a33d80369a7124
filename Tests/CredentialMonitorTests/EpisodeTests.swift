// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Logging
import MetricsTestKit
import Testing

@testable import CredentialMonitor

/// What goes on is told when it begins, when it changes and when it ends.
struct EpisodeTests {
    private let metrics = TestMetrics()
    private let log = LogRecorder()
    private let start = Timestamp(milliseconds: 1_750_000_000_000)
    private let telemetry: Telemetry

    init() { telemetry = Telemetry(logger: Logger(label: "test") { [log] _ in log }, factory: metrics, pseudonym: { $0 }) }

    @Test func aPinnedLogIsToldAfterAMinuteOnceAndAtItsEnd() throws {
        func since() throws -> Double? { try metrics.expectMeter("siwatch_log_pinned_since_timestamp_seconds").lastValue }

        telemetry.observe(logPinnedSince: start, at: start)
        #expect(try since() == 1_750_000_000)
        telemetry.observe(logPinnedSince: nil, at: start.advanced(by: .seconds(59)))
        #expect(log.events == [])
        #expect(try since() == 0)

        for minute in 0...3 { telemetry.observe(logPinnedSince: start, at: start.advanced(by: .seconds(60 * minute))) }
        #expect(log.events == ["log_pinned"])
        for _ in 1...2 { telemetry.observe(logPinnedSince: nil, at: start.advanced(by: .seconds(240))) }
        #expect(log.events == ["log_pinned", "log_emptied"])
    }

    /// Its receipt has the same reason. The verdict alone does not tell it.
    @Test func theLineOfARejectedRevocationSaysWhy() {
        let token = RefreshToken.Key(grantedAt: start, fingerprint: [1])
        let work = DueRevocation(
            request: 1,
            requestedAt: start,
            id: CredentialID(clientID: "app", userID: "ann"),
            app: "example",
            claim: Claim(owner: "it", attempts: 1),
            token: token,
            sealed: SealedToken(bytes: [])
        )
        var batch = SettlementChanges()
        batch.results = [.revocation(.rejected, .otherTeam)]
        telemetry.settled([.revocation(work, .admitted)], batch, in: .zero, at: start)
        #expect(log.events == ["revocation_rejected"] && log.lines[0].contains("other_team"))
    }

    /// The verdict alone does not tell whether the sign-in is settled.
    @Test func theLineOfALostTokenComesWithTheRejection() {
        let work = ClaimedGrant(id: 1, claim: Claim(owner: "it", attempts: 1), grantedAt: start, content: nil)
        let grant = Grant(grantedAt: start, token: nil, address: nil)
        let verdict = GrantVerdict.accepted(grant, CredentialID(clientID: "app", userID: "ann"), lost: .unreadable)
        func settle(_ result: Settled) {
            var batch = SettlementChanges()
            batch.results = [result]
            telemetry.settled([.grant(work, verdict)], batch, in: .zero, at: start)
        }
        settle(.postponed)
        #expect(log.events == [])
        settle(.grant(.rejected, .unreadableToken))
        #expect(log.events == ["token_undelivered"] && log.lines[0].contains("sealed for another user or client"))
    }

    @Test func whoLeavesTheTablesToOthersSaysNoMoreOfThem() {
        telemetry.observe(logPinnedSince: start, at: start.advanced(by: .minutes(1)))
        telemetry.leaveTablesToOthers()
        telemetry.observe(logPinnedSince: nil, at: start.advanced(by: .minutes(2)))
        #expect(log.events == ["log_pinned"])
    }

    @Test func checksThatDoNotFitAreToldOnceForEachApp() {
        func observe(_ tokens: Int, of app: String) {
            telemetry.observe(CheckRound(tokens: tokens, requestsPerSecond: 50, interval: .seconds(86_400)), of: app)
        }
        observe(4_320_000, of: "a")
        #expect(log.events == [])
        observe(4_320_001, of: "a")
        observe(5_000_000, of: "a")
        #expect(log.events == ["checks_do_not_fit"])
        observe(5_000_000, of: "b")
        #expect(log.events == ["checks_do_not_fit", "checks_do_not_fit"])
        for tokens in [4_320_000, 4_320_001] { observe(tokens, of: "a") }
        #expect(log.events.count == 2)
        observe(4_000_000, of: "a")
        #expect(log.events.last == "checks_fit")
        observe(5_000_000, of: "b")
        #expect(log.events.count == 3)
        observe(4_320_001, of: "a")
        #expect(log.events.last == "checks_do_not_fit")
    }

    @Test func anotherTroubleIsToldToo() {
        for obstacle in [nil, "locked", "locked", "read only", nil, nil] { telemetry.observe(insertObstacle: obstacle) }
        #expect(log.events == ["inserts_blocked", "inserts_blocked", "inserts_possible"])
    }
}
