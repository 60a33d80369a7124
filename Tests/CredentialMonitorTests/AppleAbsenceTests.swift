// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import CredentialMonitor

/// A night without Apple is a handful of lines.
struct AppleAbsenceTests {
    private let absence = AppleAbsence()
    private let start = Timestamp(milliseconds: 1_750_000_000_000)

    private func failed(_ kind: String = "status 503", after seconds: Int, app: String = "example") -> AppleAbsence.News? {
        absence.failed(app, kind, at: start.advanced(by: .seconds(seconds)))
    }

    private func answered(after seconds: Int) -> AppleAbsence.News? {
        absence.answered("example", at: start.advanced(by: .seconds(seconds)))
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

    @Test func eachAppCountsForItself() {
        for second in 0...1 { _ = failed(after: second) }
        #expect(failed(after: 2, app: "other") == nil)
        #expect(failed(after: 3) != nil)
    }
}
