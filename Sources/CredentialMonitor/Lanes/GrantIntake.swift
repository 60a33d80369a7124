// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Since when the lane of sign-ins has turned without a break: time in which the process or its machine stands still does not count.
package final class GrantIntake: Sendable {
    private let longestBreak: Duration
    private let state: NIOLockedValueBox<(since: Timestamp, last: Timestamp)>

    package init(pollInterval: Duration, since start: Timestamp) {
        longestBreak = pollInterval * 2 + .seconds(30)
        state = NIOLockedValueBox((start, start))
    }

    func turn(at now: Timestamp) { state.withLockedValue { $0 = (since($0, at: now), now) } }

    func since(at now: Timestamp) -> Timestamp { state.withLockedValue { since($0, at: now) } }

    /// A last turn in the future means that the clock was set back.
    private func since(_ state: (since: Timestamp, last: Timestamp), at now: Timestamp) -> Timestamp {
        state.last <= now && now <= state.last.advanced(by: longestBreak) ? state.since : now
    }
}
