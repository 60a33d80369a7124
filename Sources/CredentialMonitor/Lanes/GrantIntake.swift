// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Since when the lane of sign-ins has turned without a break: what waits for a sign-in waits in time in which sign-ins are taken, and not
/// while the process, or its whole machine, stands still.
package final class GrantIntake: Sendable {
    private let longestBreak: Duration
    private let state: NIOLockedValueBox<(since: Timestamp, last: Timestamp)>

    /// - Parameters:
    ///   - pollInterval: how often the lane turns although nobody hints.
    ///   - start: when the process became ready.
    package init(pollInterval: Duration, since start: Timestamp) {
        longestBreak = pollInterval * 2 + .seconds(30)
        state = NIOLockedValueBox((start, start))
    }

    /// The lane has claimed what there was.
    func turn(at now: Timestamp) {
        state.withLockedValue { $0 = (since($0, at: now), now) }
    }

    func since(at now: Timestamp) -> Timestamp {
        state.withLockedValue { since($0, at: now) }
    }

    /// A turn that has yet to come is from a clock that has since been set back.
    private func since(_ state: (since: Timestamp, last: Timestamp), at now: Timestamp) -> Timestamp {
        state.last <= now && now <= state.last.advanced(by: longestBreak) ? state.since : now
    }
}
