// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A clock that a test holds: time passes only when the test says so.
///
/// It keeps apart what a machine keeps apart. `advance` lets time pass, and whoever has slept long enough wakes. `set` steps the wall
/// clock, forwards or back, as an operator or NTP does: no time has passed, so nobody wakes.
package final class TestClock: Sendable {
    fileprivate struct State: Sendable {
        var now: Timestamp
        var uptime = Duration.zero
        var sleepers: [Int: Sleeper] = [:]
        var nextSleeper = 0
    }

    fileprivate struct Sleeper: Sendable {
        var deadline: Timestamp
        /// What is left to sleep; a step of the wall clock changes nothing about it.
        var rest: Duration
    }

    private let state: Observed<State>

    package init(now: Timestamp = Timestamp(milliseconds: 1_750_000_000_000)) {
        state = Observed(State(now: now))
    }

    /// The clock to hand to what is tested.
    package var wallClock: WallClock {
        WallClock(now: { self.now }, sleep: { deadline, _ in try await self.sleep(until: deadline) })
    }

    package var now: Timestamp { state.value.now }

    /// How much time has passed, whatever the wall clock shows.
    package var uptime: Duration { state.value.uptime }

    /// Lets time pass, in whole milliseconds, and wakes all who have slept long enough.
    package func advance(by duration: Duration) {
        precondition(duration >= .zero, "Time does not run backwards; set(to:) steps the wall clock. Asked for \(duration).")
        state.update { $0.pass(duration) }
    }

    /// Lets time pass until the wall clock shows `moment`, which lies ahead.
    package func advance(to moment: Timestamp) {
        advance(by: now.duration(to: moment))
    }

    /// Steps the wall clock. Nobody wakes.
    package func set(to moment: Timestamp) {
        state.update { $0.now = moment }
    }

    /// Waits until somebody sleeps on this clock.
    ///
    /// - Returns: the deadline of the sleeper who named the earliest.
    /// - Throws: `CancellationError` where the test is cancelled before that.
    @discardableResult
    package func sleeper() async throws -> Timestamp {
        try await sleepers(1)[0]
    }

    /// Waits until `count` or more sleep on this clock at once.
    ///
    /// Whoever is woken or cancelled counts no longer from that moment on.
    ///
    /// - Returns: the deadlines of all of them, the earliest first.
    /// - Throws: `CancellationError` where the test is cancelled before that.
    @discardableResult
    package func sleepers(_ count: Int) async throws -> [Timestamp] {
        try await state.first { state in
            state.sleepers.count >= count ? state.sleepers.values.map(\.deadline).sorted() : nil
        }
    }

    private func sleep(until deadline: Timestamp) async throws {
        let id = state.update { $0.add(deadline) }
        defer { state.update { $0.sleepers[id] = nil } }
        try await state.wait { $0.sleepers[id] == nil }
    }
}

extension TestClock.State {
    mutating func pass(_ duration: Duration) {
        let later = now.advanced(by: duration)
        let passed = now.duration(to: later)
        now = later
        uptime += passed
        sleepers = sleepers.compactMapValues { sleeper in
            let rest = sleeper.rest - passed
            return rest > .zero ? TestClock.Sleeper(deadline: sleeper.deadline, rest: rest) : nil
        }
    }

    /// Takes in a sleeper, unless there is nothing to wait for.
    mutating func add(_ deadline: Timestamp) -> Int {
        nextSleeper += 1
        if deadline > now {
            sleepers[nextSleeper] = TestClock.Sleeper(deadline: deadline, rest: now.duration(to: deadline))
        }
        return nextSleeper
    }
}
