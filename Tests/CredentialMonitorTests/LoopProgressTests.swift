// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CoreMetrics
import CredentialCore
import CredentialTables
import CredentialTesting
import MetricsTestKit
import NIOConcurrencyHelpers
import SQLiteStore
import Testing

@testable import CredentialMonitor

struct LoopProgressTests {
    private let now = NIOLockedValueBox(ContinuousClock.now)

    private func progress(longestSilence: Duration) -> LoopProgress {
        LoopProgress(lanes: [.grants, .codes], pollInterval: .seconds(1), longestSilence: longestSilence) { [now] in
            now.withLockedValue { $0 }
        }
    }

    private func pass(_ time: Duration) { now.withLockedValue { $0 += time } }

    /// A new process would find the server just as frozen. A loop hangs only if it waits longer than the store ever takes.
    @Test func whoWaitsForASilentStoreDoesNotHang() {
        let progress = progress(longestSilence: .seconds(85))
        for lane in [Lane.grants, .codes] { progress.turn(lane) }
        #expect(progress.stalled == [] && progress.hung == [])
        pass(.seconds(89))
        #expect(progress.stalled == ["codes", "grants"] && progress.hung == [])
        progress.refused(.codes)
        pass(.seconds(2))
        #expect(progress.stalled == ["codes", "grants"] && progress.hung == ["grants"])
        progress.turn(.grants)
        #expect(progress.stalled == ["codes"] && progress.hung == [])
    }

    /// A start that the database holds up says why, before any loop has turned.
    @Test func aLoopThatHasNeverTurnedSaysWhy() {
        let progress = progress(longestSilence: .zero)
        progress.turn(.grants)
        #expect(progress.refusal == nil)
        progress.refused(.codes, because: StoreError.full())
        #expect(progress.refusal == "the disk of the database is full")
        progress.turn(.codes)
        #expect(progress.refusal == nil)
    }

    /// The reader of `/readyz` learns the cause, and not only who suffers from it.
    @Test func theCauseComesFirst() {
        let progress = progress(longestSilence: .zero)
        for lane in [Lane.grants, .codes] { progress.turn(lane) }
        #expect(progress.trouble() == nil)
        pass(.seconds(6))
        progress.refused(.codes)
        #expect(progress.trouble() == "no progress: codes, grants")
        progress.refused(.codes, because: StoreError.full())
        progress.refused(.grants, because: StoreError.busy)
        pass(.seconds(1))
        progress.refused(.codes, because: StoreError.full())
        #expect(progress.trouble() == "the disk of the database is full; no progress: codes, grants")
        let known = "backends cannot insert: the disk of the database is full"
        #expect(progress.trouble(besides: known) == "no progress: codes, grants", "a reader of both hears it once")
        progress.turn(.codes)
        #expect(progress.trouble() == "the database is locked by another program; no progress: grants")
    }
}

/// What an operator who is paged for rejections finds in `siwatch status`.
struct RecentChecksTests {
    private let checks = RecentChecks()
    private let start = Timestamp(milliseconds: 1_750_000_000_000)

    private func note(_ label: RefreshLabel, _ number: Int, after minutes: Int = 0) {
        checks.note(label, of: "example", by: number, at: start.advanced(by: .minutes(minutes)))
    }

    private func example(after minutes: Int) -> AppChecks? {
        checks.all(at: start.advanced(by: .minutes(minutes))).first { $0.app == "example" }
    }

    @Test func moreThanOneInTenIsAMassRejectionForAnHour() {
        note(.valid, 189)
        note(.rejected, 20)
        #expect(example(after: 0)?.isMassRejection == false)
        note(.rejected, 1, after: 4)
        #expect(example(after: 4) == AppChecks(app: "example", answered: 210, rejected: 21, asked: 210, throttled: 0))
        #expect(example(after: 4)?.isMassRejection == false)
        note(.rejected, 1, after: 30)
        #expect(example(after: 59)?.isMassRejection == true)
        #expect(example(after: 60) == AppChecks(app: "example", answered: 1, rejected: 1, asked: 211, throttled: 0))
    }

    /// A token that Apple never accepted says nothing of the app's users.
    @Test func otherOutcomesAreNoAnswers() {
        for label in RefreshLabel.allCases where ![.valid, .unnamed, .rejected].contains(label) { note(label, 100) }
        #expect(example(after: 0)?.answered == 0)
        #expect(example(after: 0)?.isMassRejection == false)
    }

    @Test func aQuarterThatIsThrottledCountsForThreeHours() {
        note(.throttled, 3)
        note(.valid, 9)
        #expect(example(after: 0)?.isThrottled == false)
        note(.throttled, 1, after: 20)
        #expect(example(after: 179)?.isThrottled == true)
        #expect(example(after: 180)?.throttled == 1)
        #expect(example(after: 200)?.asked == 0)
    }

    @Test func aClockThatIsPutBackForgetsWhatIsAhead() {
        note(.rejected, 50, after: 60)
        #expect(example(after: 0)?.rejected == 0)
        note(.valid, 1)
        #expect(example(after: 0)?.answered == 1)
    }
}

/// The gauges that siwatch reads from the tables.
struct TableFigureTests {
    /// Otherwise an old figure would pass for today's.
    @Test func aFigureThatCannotBeReadIsAbsent() async throws {
        let monitor = try Monitor()
        let (telemetry, metrics) = (monitor.telemetry, monitor.metrics)
        func isTold(_ metric: Metric) -> Bool { metrics.meters.contains { $0.label == metric.name } }
        let read: [Metric] = [
            .queueDepth, .queueOldest, .queueDue, .credentials, .credentialsUnverified, .credentialsPending, .credentialsNeverAccepted,
        ]
        try await monitor.signIn("ann")
        telemetry.observe(try await monitor.store.overview(Overview.Question(at: monitor.clock.now)))
        telemetry.observe(logPinnedSince: nil, at: monitor.clock.now)
        for metric in read + [.credentialsOverdue, .logPinnedSince] { #expect(isTold(metric), "\(metric.name)") }

        telemetry.tablesUnread()
        telemetry.logPinUnread()
        for metric in read + [.credentialsOverdue, .logPinnedSince] { #expect(!isTold(metric), "\(metric.name)") }
        #expect(isTold(.storeFull), "what the process knows by itself stays")
    }

    @Test func whetherAnAppIsPausedIsAbsentUnlessAppleBlamesIt() async throws {
        let monitor = try Monitor()
        let telemetry = monitor.telemetry
        func gauge() -> Double? { monitor.gauge("siwatch_app_paused") }
        _ = try await monitor.ask(.pause(app: Monitor.app))
        telemetry.observe(pausesOf: try await monitor.store.apps())
        #expect(gauge() == 1)
        telemetry.tablesUnread()
        #expect(gauge() == nil)
        telemetry.appPaused(Monitor.app, client: Monitor.clients[0], error: "invalid_client", pause: .minutes(1))
        telemetry.tablesUnread()
        #expect(gauge() == 1)
    }
}
