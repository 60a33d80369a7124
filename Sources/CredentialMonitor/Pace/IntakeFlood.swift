// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Lets very many notifications come in over HTTP before they are settled, in fewer and larger commits.
package final class IntakeFlood: Sendable {
    private let uptime: @Sendable () -> Duration
    private let state: NIOLockedValueBox<State>

    private struct State {
        /// How many came in this interval, and in the one before it.
        var count = 0
        var before = 0
        var since: Duration
        var settledAt: Duration?
        var isHolding = false

        mutating func turn(at now: Duration) {
            let age = now - since
            guard age >= IntakeFlood.interval else { return }
            before = age < IntakeFlood.interval * 2 ? count : 0
            (count, since) = (0, now)
        }
    }

    static let interval = Duration.milliseconds(100)
    /// In one or two intervals. Apple sends fewer in an hour to most teams.
    static let many = 100
    /// How long notifications wait at most.
    static let longestHold = Duration.seconds(2)

    /// - Parameter uptime: reads a clock that never steps.
    package init(uptime: @escaping @Sendable () -> Duration) {
        self.uptime = uptime
        state = NIOLockedValueBox(State(since: uptime()))
    }

    /// Counts notifications that were committed just now.
    package func took(_ count: Int) {
        state.withLockedValue { state in
            state.turn(at: uptime())
            state.count += count
        }
    }

    /// Whether notifications may be settled now. If so, it is noted that they are.
    func maySettle() -> Bool {
        state.withLockedValue { state in
            let now = uptime()
            state.turn(at: now)
            let isFlood = state.before + state.count >= Self.many
            state.isHolding = isFlood && state.settledAt.map { now - $0 < Self.longestHold } ?? false
            if !state.isHolding { state.settledAt = now }
            return !state.isHolding
        }
    }

    /// How soon to ask again; nil if notifications might be settled when that was last asked.
    var retryDelay: Duration? { state.withLockedValue { $0.isHolding ? Self.interval : nil } }
}
