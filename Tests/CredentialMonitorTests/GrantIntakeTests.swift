// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import CredentialMonitor
@testable import CredentialTesting

@Suite struct GrantIntakeTests {
    private let start = Timestamp(seconds: 1_750_000_000)

    private func at(_ seconds: Int) -> Timestamp { start.advanced(by: .seconds(seconds)) }

    @Test func itCountsFromTheStartWhileTheLaneTurns() {
        let intake = GrantIntake(pollInterval: .seconds(1), since: start)
        #expect(intake.since(at: at(20)) == start)
        for second in stride(from: 30, through: 600, by: 30) { intake.turn(at: at(second)) }
        #expect(intake.since(at: at(601)) == start)
    }

    /// Stopped by a signal, a paused machine, or a store that does not answer.
    @Test func itBeginsAnewAfterABreak() {
        let intake = GrantIntake(pollInterval: .seconds(1), since: start)
        #expect(intake.since(at: at(400)) == at(400), "nothing has been taken yet")
        intake.turn(at: at(400))
        intake.turn(at: at(410))
        #expect(intake.since(at: at(411)) == at(400))
    }

    /// With the longest poll interval that the configuration accepts, work that waits for a sign-in waits six minutes.
    @Test func aBreakIsNoticedBeforeAnEventHasWaited() {
        let intake = GrantIntake(pollInterval: .seconds(60), since: start)
        intake.turn(at: at(60))
        #expect(intake.since(at: at(60 + 150)) == start)
        #expect(intake.since(at: at(60 + 151)) == at(60 + 151))
    }

    @Test func aClockThatIsSetBackProlongsNothing() {
        let intake = GrantIntake(pollInterval: .seconds(1), since: start)
        intake.turn(at: at(20))
        #expect(intake.since(at: at(-3600)) == at(-3600))
        intake.turn(at: at(-3600))
        #expect(intake.since(at: at(-3590)) == at(-3600))
    }

    /// A process freezes for seven minutes with a claimed sign-in. It never reports a user as revoked who has signed in again.
    @Test func aProcessThatStoodStillTakesSignInsFirst() async throws {
        let monitor = try Monitor()
        try await monitor.signIn("ann", token: "old")
        monitor.clock.advance(by: .seconds(5))
        let withdrawn = monitor.clock.now
        monitor.clock.advance(by: .seconds(5))
        try await monitor.grant("ann", token: "new")
        try await monitor.notify("consent-revoked ann \(withdrawn.milliseconds)")
        let claimed = try await monitor.grantHandler.claim(upTo: 1)
        try await monitor.settle(monitor.notificationHandler, after: .minutes(7))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        for work in claimed { try await monitor.writer.submit(monitor.grantHandler.resolve(work)) }
        try await monitor.settle(monitor.notificationHandler, after: .seconds(2))
        #expect(try await monitor.state(of: "ann") == "authorized granted")
        #expect(try await monitor.count("SELECT COUNT(*) FROM credential_change WHERE to_state <> 'authorized'") == 0)
    }
}
