// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Arithmetic on moments stops at the ends of time; it never traps and never wraps.
@Suite struct TimestampTests {
    private static let moments = [Int64.min, .min + 1, -1, 0, 1, 1_750_000_000_000, .max - 1, .max].map(at)
    private static let durations: [Duration] = [
        .zero, .nanoseconds(1), .milliseconds(1), .seconds(86_400), .seconds(Int64.max), .seconds(Int64.min), .milliseconds(Int64.max),
        .milliseconds(Int64.min), .seconds(Int64.max) * 4, .seconds(Int64.min) * 4,
        Duration(attoseconds: .max), Duration(attoseconds: .min),
    ]

    @Test func aMomentIsMillisecondsSince1970() {
        #expect(Timestamp(seconds: 1_750_000_000) == Timestamp(milliseconds: 1_750_000_000_000))
        #expect(Timestamp(seconds: -1) == Timestamp(milliseconds: -1000))
    }

    @Test func secondsThatDoNotFitAreTheEndOfTime() {
        #expect(Timestamp(seconds: .max) == at(.max))
        #expect(Timestamp(seconds: .min) == at(.min))
        // Multiplied with wrapping, this many seconds would be 384 milliseconds.
        #expect(Timestamp(seconds: 18_446_744_073_709_552) == at(.max))
    }

    @Test func secondsAndMicrosecondsAreNotLegalMilliseconds() {
        let now: Int64 = 1_750_000_000
        #expect(!Timestamp.legal.contains(at(now)))
        #expect(Timestamp.legal.contains(at(now * 1000)))
        #expect(!Timestamp.legal.contains(at(now * 1_000_000)))
    }

    @Test func aStepAheadIsUndoneByAStepBack() {
        #expect(at(1000).advanced(by: .seconds(2)) == at(3000))
        #expect(at(1000).advanced(by: .seconds(-2)) == at(-1000))
        #expect(at(3000).duration(to: at(1000)) == .seconds(-2))
        #expect(at(1000).duration(to: at(3000)) == .seconds(2))
    }

    @Test(arguments: moments, moments)
    func theDurationBetweenTwoMomentsLeadsFromOneToTheOther(_ left: Timestamp, _ right: Timestamp) {
        #expect(left.advanced(by: left.duration(to: right)) == right)
        #expect((left < right) == (left.duration(to: right) > .zero))
    }

    @Test(arguments: moments, durations)
    func aStepOfAnyLengthEndsOnItsOwnSide(_ moment: Timestamp, _ duration: Duration) {
        let moved = moment.advanced(by: duration)
        #expect(duration < .zero ? moved <= moment : moved >= moment)
    }

    private static let wholes: [(Duration, Int64)] = [
        (.zero, 0), (.microseconds(1_999), 1), (.microseconds(-1_999), -1), (.seconds(2), 2_000),
        (.seconds(Int64.max), .max), (.seconds(Int64.min), .min), (.seconds(Int64.max) * 4, .max), (.milliseconds(Int64.min), .min),
    ]

    @Test(arguments: wholes)
    func wholeMillisecondsAreRoundedTowardsZeroAndStopAtTheEnds(_ duration: Duration, _ milliseconds: Int64) {
        #expect(duration.milliseconds == milliseconds)
    }

    @Test func aDurationIsSecondsToMetrics() {
        #expect(Duration.milliseconds(1_500).inSeconds == 1.5)
        #expect(Duration.milliseconds(-1_500).inSeconds == -1.5)
        #expect(Duration(attoseconds: .max).inSeconds > 1.7e20)
    }

    @Test func anAbsentMomentIsLessThanAny() {
        #expect(latest(nil, nil) == nil)
        #expect(latest(at(1), nil) == at(1))
        #expect(latest(nil, at(1)) == at(1))
        #expect(latest(at(1), at(2)) == at(2))
        #expect(latest(at(2), at(1)) == at(2))

        #expect(!isGreater(nil, than: nil))
        #expect(!isGreater(nil, than: at(1)))
        #expect(isGreater(at(1), than: nil))
        #expect(!isGreater(at(1), than: at(2)))
        #expect(!isGreater(at(2), than: at(2)))
        #expect(isGreater(at(2), than: at(1)))
    }
}
