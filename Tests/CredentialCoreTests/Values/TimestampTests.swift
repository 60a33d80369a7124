// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Foundation
import Testing

/// Arithmetic on moments stops at the ends of time; it never traps and never wraps.
@Suite struct TimestampTests {
    private static let moments = [Int64.min, .min + 1, -1, 0, 1, 1_750_000_000_000, .max - 1, .max].map(at)
    private static let durations: [Duration] = [
        .zero, .nanoseconds(1), .milliseconds(1), .seconds(86_400), .seconds(Int64.max), .seconds(Int64.min), .milliseconds(Int64.max),
        .milliseconds(Int64.min), .seconds(Int64.max) * 4, .seconds(Int64.min) * 4,
        Duration(attoseconds: .max), Duration(attoseconds: .min),
    ]

    @Test func secondsAreMillisecondsSince1970OrTheEndOfTimeIfTheyDoNotFit() {
        #expect(Timestamp(seconds: 1_750_000_000) == Timestamp(milliseconds: 1_750_000_000_000))
        #expect(Timestamp(seconds: -1) == Timestamp(milliseconds: -1000))
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

    @Test(arguments: moments, moments) func theDurationBetweenTwoMomentsLeadsFromOneToTheOther(_ left: Timestamp, _ right: Timestamp) {
        #expect(left.advanced(by: left.duration(to: right)) == right)
        #expect((left < right) == (left.duration(to: right) > .zero))
    }

    @Test(arguments: moments, durations) func aStepOfAnyLengthEndsOnItsOwnSide(_ moment: Timestamp, _ duration: Duration) {
        let moved = moment.advanced(by: duration)
        #expect(duration < .zero ? moved <= moment : moved >= moment)
    }

    private static let wholes: [(Duration, Int64)] = [
        (.zero, 0), (.microseconds(1_999), 1), (.microseconds(-1_999), -1), (.seconds(2), 2_000),
        (.seconds(Int64.max), .max), (.seconds(Int64.min), .min), (.seconds(Int64.max) * 4, .max), (.milliseconds(Int64.min), .min),
    ]

    @Test(arguments: wholes) func wholeMillisecondsAreRoundedTowardsZeroAndStopAtTheEnds(_ duration: Duration, _ milliseconds: Int64) {
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

/// The test clock keeps the promises of the production clock.
@Suite struct WallClockTests {
    private let clock = TestClock(now: at(1_000))

    @Test func timePassesOnlyWhenTheTestSaysSo() {
        #expect(clock.wallClock.now == at(1_000))
        clock.advance(by: .seconds(2))
        #expect(clock.wallClock.now == at(3_000))
        clock.advance(to: at(4_000))
        #expect(clock.wallClock.now == at(4_000))
    }

    @Test func whoHasSleptLongEnoughWakes() async throws {
        async let first: Void = clock.wallClock.sleep(until: at(2_000), tolerance: nil)
        async let second: Void = clock.wallClock.sleep(until: at(2_500), tolerance: nil)
        async let third: Void = clock.wallClock.sleep(until: at(9_000), tolerance: nil)
        #expect(try await clock.sleepers(3) == [at(2_000), at(2_500), at(9_000)])

        clock.advance(by: .milliseconds(999))
        #expect(try await clock.sleepers(3).count == 3)
        clock.advance(by: .milliseconds(501))
        #expect(try await clock.sleeper() == at(9_000))
        try await first
        try await second
        clock.advance(to: at(9_000))
        try await third
    }

    @Test func nobodySleepsUntilATimeThatIsPast() async throws {
        try await clock.wallClock.sleep(until: at(1_000), tolerance: nil)
        try await clock.wallClock.sleep(for: .seconds(-5))
    }

    @Test(arguments: [-1_000_000, 1_000_000] as [Int64]) func aStepOfTheWallClockWakesNobodyAndHoldsNobodyUp(_ step: Int64) async throws {
        async let sleep: Void = clock.wallClock.sleep(for: .seconds(1))
        try await clock.sleeper()
        clock.set(to: at(1_000 + step))
        #expect(clock.now == at(1_000 + step))
        clock.advance(by: .milliseconds(999))
        try await clock.sleeper()
        clock.advance(by: .milliseconds(1))
        try await sleep
    }

    @Test func aCancelledSleeperWakesAtOnceAndIsForgotten() async throws {
        let sleep = Task { [clock] in try await clock.wallClock.sleep(for: .seconds(1)) }
        try await clock.sleeper()
        sleep.cancel()
        await #expect(throws: CancellationError.self) { try await sleep.value }

        // Only the second sleeper is left.
        async let other: Void = clock.wallClock.sleep(for: .seconds(5))
        #expect(try await clock.sleeper() == at(6_000))
        clock.advance(by: .seconds(5))
        try await other
    }

    @Test func whoIsCancelledBeforehandDoesNotLieDown() async throws {
        let sleep = Task { [clock] in
            withUnsafeCurrentTask { $0?.cancel() }
            try await clock.wallClock.sleep(for: .seconds(1))
        }
        await #expect(throws: CancellationError.self) { try await sleep.value }
    }

    @Test func aWaitForASleeperCanBeCancelled() async throws {
        let wait = Task { [clock] in try await clock.sleeper() }
        wait.cancel()
        await #expect(throws: CancellationError.self) { try await wait.value }
    }
}

/// Only `reveal` turns a secret into text.
@Suite struct SecretTests {
    private struct Envelope: Sendable {
        var secret = Secret("tok-en")
        var maybe: Secret? = Secret("tok-en")
        var many = [Secret("tok-en")]
        var named = ["key": Secret("tok-en")]
        var content = ClaimedGrant.Content(credential: .ann, refreshToken: Secret("tok-en"), address: nil)
    }

    private struct Failure: Error {
        var secret = Secret("tok-en")
    }

    @Test func revealIsTheTextAndEqualSecretsHoldEqualText() {
        #expect(Secret("tok-en").reveal == "tok-en")
        #expect(Secret("tok-en") == Secret("tok-en"))
        #expect(Secret("tok-en") != Secret("to-ken"))
    }

    @Test func itNeverPrintsItselfNorInsideAnother() {
        expectSilence(of: Secret("tok-en"))
        expectSilence(of: Envelope())
        expectSilence(of: Secret("tok-en") as Secret?)
        expectSilence(of: (1, Secret("tok-en")))
        expectSilence(of: Result<Int, Failure>.failure(Failure()))
        expectSilence(of: ScriptedCall.refresh(Secret("tok-en")))
    }

    @Test func noMirrorShowsIt() {
        let mirror = Mirror(reflecting: Secret("tok-en"))
        #expect(mirror.children.isEmpty)
        #expect(mirror.superclassMirror == nil)
        #expect(mirror.displayStyle == nil)
    }

    private enum ScriptedCall {
        case refresh(Secret)
    }

    private func expectSilence(of value: some Any, sourceLocation: SourceLocation = #_sourceLocation) {
        var dumped = ""
        dump(value, to: &dumped)
        let texts = [
            "\(value)", String(describing: value), String(reflecting: value), dumped,
            String(format: "%@", "\(value)"), "\(Mirror(reflecting: value).children.map { "\($0)" })",
        ]
        for text in texts { #expect(!text.contains("tok-en"), sourceLocation: sourceLocation) }
        #expect(dumped.contains("[secret]"), sourceLocation: sourceLocation)
    }
}
