// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

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

    package init(now: Timestamp = Timestamp(milliseconds: 1_750_000_000_000)) { state = Observed(State(now: now)) }
    package var wallClock: WallClock { WallClock(now: { self.now }, sleep: { deadline, _ in try await self.sleep(until: deadline) }) }
    package var now: Timestamp { state.value.now }
    package var uptime: Duration { state.value.uptime }

    /// Lets time pass, in whole milliseconds, and wakes every sleeper whose time is over.
    package func advance(by duration: Duration) {
        precondition(duration >= .zero, "Time does not run backwards; set(to:) steps the wall clock. Asked for \(duration).")
        state.update { $0.pass(duration) }
    }

    /// Lets time pass until the wall clock shows `moment`, which must lie ahead.
    package func advance(to moment: Timestamp) { advance(by: now.duration(to: moment)) }

    /// Steps the wall clock. No sleeper wakes.
    package func set(to moment: Timestamp) { state.update { $0.now = moment } }

    /// Waits until a task sleeps on this clock, and returns the earliest deadline.
    @discardableResult
    package func sleeper() async throws -> Timestamp { try await sleepers(1)[0] }

    /// Waits until `count` or more tasks sleep on this clock at once, and returns their deadlines, the earliest first.
    @discardableResult
    package func sleepers(_ count: Int) async throws -> [Timestamp] {
        try await state.first { $0.sleepers.count >= count ? $0.sleepers.values.map(\.deadline).sorted() : nil }
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
        if deadline > now { sleepers[nextSleeper] = TestClock.Sleeper(deadline: deadline, rest: now.duration(to: deadline)) }
        return nextSleeper
    }
}

/// A value under a lock. Callers can wait until it meets a condition.
///
/// Every change checks the conditions under the lock. A waiter misses no state, however short, and never polls.
package final class Observed<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var waiters: [Int: Waiter] = [:]
        var nextWaiter = 0
    }

    private struct Waiter {
        /// Resumes the waiter if the value meets its condition, and returns whether it does.
        var look: @Sendable (Value) -> Bool
        var cancel: @Sendable () -> Void
    }

    private let state: NIOLockedValueBox<State>

    package init(_ value: Value) { state = NIOLockedValueBox(State(value: value)) }
    package var value: Value { state.withLockedValue { $0.value } }

    package func update<Result: Sendable>(_ change: (inout Value) -> Result) -> Result {
        state.withLockedValue { state in
            let result = change(&state.value)
            let value = state.value
            state.waiters = state.waiters.filter { !$0.value.look(value) }
            return result
        }
    }

    /// The first match that `match` finds in a value, beginning with the present one.
    package func first<Match: Sendable>(_ match: @escaping @Sendable (Value) -> Match?) async throws -> Match {
        let id = state.withLockedValue { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let waiter = Waiter(
                    look: { value in
                        guard let found = match(value) else { return false }
                        continuation.resume(returning: found)
                        return true
                    },
                    cancel: { continuation.resume(throwing: CancellationError()) }
                )
                state.withLockedValue { state in
                    // An earlier cancellation found no waiter. A cancellation from now on waits for the lock.
                    if Task.isCancelled {
                        waiter.cancel()
                    } else if !waiter.look(state.value) {
                        state.waiters[id] = waiter
                    }
                }
            }
        } onCancel: {
            state.withLockedValue { $0.waiters.removeValue(forKey: id) }?.cancel()
        }
    }

    package func wait(until condition: @escaping @Sendable (Value) -> Bool) async throws { try await first { condition($0) ? () : nil } }
}
