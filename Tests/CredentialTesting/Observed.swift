// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

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

    package init(_ value: Value) {
        state = NIOLockedValueBox(State(value: value))
    }

    package var value: Value {
        state.withLockedValue { $0.value }
    }

    package func update<Result: Sendable>(_ change: (inout Value) -> Result) -> Result {
        state.withLockedValue { state in
            let result = change(&state.value)
            let value = state.value
            state.waiters = state.waiters.filter { !$0.value.look(value) }
            return result
        }
    }

    /// The first match that `match` finds in a value, beginning with the present one.
    ///
    /// - Throws: `CancellationError` if the task is cancelled before that.
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

    /// Waits for a value that meets `condition`.
    ///
    /// - Throws: `CancellationError` if the task is cancelled before that.
    package func wait(until condition: @escaping @Sendable (Value) -> Bool) async throws {
        try await first { condition($0) ? () : nil }
    }
}
