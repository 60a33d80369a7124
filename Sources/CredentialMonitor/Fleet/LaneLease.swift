// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Whether this replica owns a lane, by a clock that never steps. Lanes ask right before each request. The lease counts from before the
/// renewal was sent, so it ends here before another replica can take the lane. A new owner waits a second, so that no second holds requests
/// of two owners.
package final class LaneLease: Sendable {
    private let uptime: @Sendable () -> Duration
    private let state: NIOLockedValueBox<State>

    private struct State {
        var epoch: Int64?
        var begin = Duration.zero
        var end = Duration.zero

        func holds(at uptime: Duration) -> Bool { begin <= uptime && uptime < end }
    }

    /// Ends a lease early, because a request that was sent within it may still be on its way.
    static let margin = Duration.milliseconds(250)
    private static let pause = Duration.seconds(1)

    package init(uptime: @escaping @Sendable () -> Duration) {
        self.uptime = uptime
        state = NIOLockedValueBox(State())
    }

    private init() {
        uptime = { .zero }
        state = NIOLockedValueBox(State(end: .seconds(1)))
    }

    /// For a store without other replicas: one process holds the lock on its database.
    package static let endless = LaneLease()

    package var holds: Bool { state.withLockedValue { $0.holds(at: uptime()) } }

    /// Whether this replica has owned the lane without a break since `epoch`.
    func isOurs(since epoch: Int64) -> Bool { state.withLockedValue { $0.epoch == epoch } }

    /// Goes on, or takes the lane anew if another replica may have owned it since: then the epoch is new. Says whether it does.
    func renew(_ epoch: Int64, askedAt: Duration, answeredAt: Duration, for length: Duration) -> Bool {
        state.withLockedValue { state in
            let isNew = state.epoch != epoch
            if isNew { state = State(epoch: epoch, begin: answeredAt + Self.pause) }
            state.end = askedAt + length - Self.margin
            return isNew
        }
    }

    /// Returns true once for each lease that has ended.
    func isLost() -> Bool {
        state.withLockedValue { state in
            guard state.epoch != nil, state.end <= uptime() else { return false }
            state.epoch = nil
            return true
        }
    }

    func end() { state.withLockedValue { $0.end = min($0.end, uptime()) } }
}
