// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A clock under a test's control: time passes only when the test says so.
///
/// It separates the two clocks of a machine. `advance` lets time pass and wakes every sleeper whose time is over. `set` steps the wall
/// clock, forwards or back, as an operator or NTP does. A step lets no time pass, so no sleeper wakes.
package final class TestClock: Sendable {
    fileprivate struct State: Sendable {
        var now: Timestamp
        var uptime = Duration.zero
        var sleepers: [Int: Sleeper] = [:]
        var nextSleeper = 0
    }

    fileprivate struct Sleeper: Sendable {
        var deadline: Timestamp
        /// The remaining time to sleep. A step of the wall clock does not change it.
        var rest: Duration
    }

    private let state: Observed<State>

    package init(now: Timestamp = Timestamp(milliseconds: 1_750_000_000_000)) {
        state = Observed(State(now: now))
    }

    /// The clock for the code under test.
    package var wallClock: WallClock {
        WallClock(now: { self.now }, sleep: { deadline, _ in try await self.sleep(until: deadline) })
    }

    package var now: Timestamp { state.value.now }

    /// The time that has passed, whatever the wall clock shows.
    package var uptime: Duration { state.value.uptime }

    /// Lets time pass, in whole milliseconds, and wakes every sleeper whose time is over.
    package func advance(by duration: Duration) {
        precondition(duration >= .zero, "Time does not run backwards; set(to:) steps the wall clock. Asked for \(duration).")
        state.update { $0.pass(duration) }
    }

    /// Lets time pass until the wall clock shows `moment`, which must lie ahead.
    package func advance(to moment: Timestamp) {
        advance(by: now.duration(to: moment))
    }

    /// Steps the wall clock. No sleeper wakes.
    package func set(to moment: Timestamp) {
        state.update { $0.now = moment }
    }

    /// Waits until a task sleeps on this clock.
    ///
    /// - Returns: the earliest deadline of all sleepers.
    /// - Throws: `CancellationError` if the test is cancelled before that.
    @discardableResult
    package func sleeper() async throws -> Timestamp {
        try await sleepers(1)[0]
    }

    /// Waits until `count` or more tasks sleep on this clock at once.
    ///
    /// A woken or cancelled task counts no longer from that moment on.
    ///
    /// - Returns: the deadlines of all sleepers, the earliest first.
    /// - Throws: `CancellationError` if the test is cancelled before that.
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

    /// Adds a sleeper, unless its deadline has passed.
    mutating func add(_ deadline: Timestamp) -> Int {
        nextSleeper += 1
        if deadline > now {
            sleepers[nextSleeper] = TestClock.Sleeper(deadline: deadline, rest: now.duration(to: deadline))
        }
        return nextSleeper
    }
}
