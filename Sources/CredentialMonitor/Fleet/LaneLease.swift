// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Whether a lane is ours, by a clock that never steps: asked right before each request is sent.
///
/// The lease is counted from before it was asked for, so it ends here before anybody else can have it; and who has taken it waits a second,
/// so that no second holds requests of two.
package final class LaneLease: Sendable {
    private let uptime: @Sendable () -> Duration
    private let state: NIOLockedValueBox<State>

    private struct State {
        var epoch: Int64?
        var begin = Duration.zero
        var end = Duration.zero

        func holds(at uptime: Duration) -> Bool { begin <= uptime && uptime < end }
    }

    /// What is sent in it may still be on its way.
    static let margin = Duration.milliseconds(250)
    private static let pause = Duration.seconds(1)

    /// - Parameter uptime: what a clock that never steps shows.
    package init(uptime: @escaping @Sendable () -> Duration) {
        self.uptime = uptime
        state = NIOLockedValueBox(State())
    }

    private init() {
        uptime = { .zero }
        state = NIOLockedValueBox(State(end: .seconds(1)))
    }

    /// Where nobody else is: one process holds the lock on its database.
    package static let endless = LaneLease()

    package var holds: Bool {
        state.withLockedValue { $0.holds(at: uptime()) }
    }

    /// Whether it has been ours without a break.
    func isOurs(since epoch: Int64) -> Bool { state.withLockedValue { $0.epoch == epoch } }

    /// - Parameters:
    ///   - epoch: another than before where somebody else may have had it in between.
    ///   - askedAt: by the uptime, as `answeredAt`.
    /// - Returns: whether it is taken anew.
    func renew(_ epoch: Int64, askedAt: Duration, answeredAt: Duration, for length: Duration) -> Bool {
        state.withLockedValue { state in
            let isNew = state.epoch != epoch
            if isNew { state = State(epoch: epoch, begin: answeredAt + Self.pause) }
            state.end = askedAt + length - Self.margin
            return isNew
        }
    }

    /// - Returns: whether it was ours, and its end has not been told yet.
    func isLost() -> Bool {
        state.withLockedValue { state in
            guard state.epoch != nil, state.end <= uptime() else { return false }
            state.epoch = nil
            return true
        }
    }

    /// Ends it now.
    func end() {
        state.withLockedValue { $0.end = min($0.end, uptime()) }
    }
}
