// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import CredentialMonitor

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
