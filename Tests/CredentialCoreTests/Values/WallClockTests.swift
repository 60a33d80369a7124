// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

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

    @Test(arguments: [-1_000_000, 1_000_000] as [Int64])
    func aStepOfTheWallClockWakesNobodyAndHoldsNobodyUp(_ step: Int64) async throws {
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
