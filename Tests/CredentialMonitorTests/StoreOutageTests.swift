// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Logging
import NIOConcurrencyHelpers
import Testing

@testable import CredentialMonitor

/// A database that is away for an hour leaves a line a minute, and one when it is back.
struct StoreOutageTests {
    private let outage = Outages<String, ContinuousClock.Instant>(.init(reminder: .minutes(1)))
    private let start = ContinuousClock.now

    private func failed(_ lane: String, _ line: String = "claim_failed busy", after seconds: Int) -> Bool {
        outage.failed("", lane, line, at: start + .seconds(seconds)) != nil
    }

    @Test func allLoopsTogetherTellALineAMinute() {
        #expect(failed("grants", after: 0))
        for second in 0...59 {
            for lane in ["grants", "codes", "notifications"] { #expect(!failed(lane, after: second)) }
        }
        #expect(failed("codes", "claim_failed full", after: 59), "another error")
        #expect(failed("codes", after: 60))
    }

    @Test func theDatabaseIsBackWhenItIsBackForAll() {
        for lane in ["grants", "codes"] { _ = failed(lane, after: 0) }
        #expect(outage.answered("", "notifications", at: start + .seconds(1)) == nil, "that table was never locked")
        #expect(outage.answered("", "grants", at: start + .seconds(2)) == nil)
        #expect(outage.answered("", "codes", at: start + .seconds(3)) == OutageNews(failures: 2, lasts: .seconds(3)))
        #expect(outage.answered("", "codes", at: start + .seconds(4)) == nil)
        #expect(failed("codes", after: 5), "a new outage")
    }
}

/// A night without Apple is a handful of lines.
struct AppleAbsenceTests {
    private let absence = Outages<AskingLane, Timestamp>(.ofApple)
    private let start = Timestamp(milliseconds: 1_750_000_000_000)

    private func failed(_ kind: String = "status 503", after seconds: Int, app: String = "example") -> OutageNews? {
        absence.failed(app, .codes, kind, at: start.advanced(by: .seconds(seconds)))
    }

    private func answered(_ lane: AskingLane = .codes, after seconds: Int) -> OutageNews? {
        absence.answered("example", lane, at: start.advanced(by: .seconds(seconds)))
    }

    @Test func oneFailureIsChance() {
        #expect(failed(after: 0) == nil)
        #expect(failed(after: 1) == nil)
        for second in 2...6 { #expect(answered(after: second) == nil) }
        #expect(failed(after: 7) == nil)
    }

    @Test func theThirdIsToldAndThenOneInAnHour() {
        #expect(failed(after: 0) == nil)
        #expect(failed(after: 1) == nil)
        #expect(failed(after: 2) == .init(failures: 3, lasts: .seconds(2)))
        for second in 3...590 { #expect(failed(after: second) == nil) }
        #expect(failed("timeout", after: 591) == .init(failures: 592, lasts: .seconds(591)))
        #expect(failed(after: 3601) == nil)
        #expect(failed(after: 3602) == .init(failures: 594, lasts: .seconds(3602)))
    }

    @Test func oneThatFailsAfterAMinuteIsToldToo() {
        #expect(failed(after: 0) == nil)
        #expect(failed(after: 60) == .init(failures: 2, lasts: .seconds(60)))
    }

    @Test func appleIsBackAfterFiveAnswersInARow() {
        for second in 0...2 { _ = failed(after: second) }
        for second in 3...6 { #expect(answered(after: second) == nil) }
        #expect(failed(after: 7) == nil)
        for second in 8...11 { #expect(answered(after: second) == nil) }
        #expect(answered(after: 12) == .init(failures: 4, lasts: .seconds(12)))
        #expect(answered(after: 13) == nil)
    }

    @Test func appleIsBackWithTheFirstAnswerAfterAMinuteOfQuiet() {
        for second in 0...2 { _ = failed(after: second) }
        #expect(answered(after: 62) == .init(failures: 3, lasts: .seconds(62)))
    }

    /// Codes fail for an hour, one each minute, and a good check between any two neither ends the absence nor moves its beginning.
    @Test func goodChecksEndNoAbsenceOfCodes() {
        for second in stride(from: 0, to: 3600, by: 60) {
            _ = failed(after: second)
            for later in 1...6 { #expect(answered(.checks, after: second + 9 * later) == nil) }
            let told = absence.told(at: start.advanced(by: .seconds(second + 59)))
            #expect(second == 0 || told.map(\.since) == [start], "\(second): \(told)")
        }
        // Nobody signs in any more.
        #expect(answered(.checks, after: 3539 + 299) == nil)
        #expect(answered(.checks, after: 3540 + 300) == .init(failures: 60, lasts: .seconds(3840)))
    }

    @Test func eachAppCountsForItself() {
        for second in 0...1 { _ = failed(after: second) }
        #expect(failed(after: 2, app: "other") == nil)
        #expect(failed(after: 3) != nil)
    }
}

struct LogRecorder: LogHandler {
    private let kept = NIOLockedValueBox<(lines: [String], events: [String])>(([], []))
    private let atEachEntry: @Sendable () -> Void

    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level

    init(logLevel: Logger.Level = .debug, atEachEntry: @escaping @Sendable () -> Void = {}) {
        (self.logLevel, self.atEachEntry) = (logLevel, atEachEntry)
    }

    var lines: [String] { kept.withLockedValue(\.lines) }
    var events: [String] { kept.withLockedValue(\.events) }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        atEachEntry()
        kept.withLockedValue { kept in
            kept.lines.append("\(event.message) \(event.metadata ?? [:])")
            if let name = event.metadata?["event"] { kept.events.append("\(name)") }
        }
    }
}
