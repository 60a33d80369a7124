// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Synchronization

/// A reader that keeps erased tokens readable in the database's log: told once when it has stayed for a minute, and when it has gone.
package final class LogPin: Sendable {
    private let telemetry: Telemetry
    private let isTold = Atomic<Bool>(false)

    /// Longer than a reader should read.
    private static let delay = Duration.minutes(1)

    package init(telemetry: Telemetry) {
        self.telemetry = telemetry
    }

    /// - Parameter since: since when the log could not be emptied although it holds something erased; nil where it does not.
    package func observe(since: Timestamp?, at now: Timestamp) {
        telemetry.logPinned(since: since)
        guard let since else {
            if isTold.exchange(false, ordering: .relaxed) { telemetry.logEmptied() }
            return
        }
        let duration = since.duration(to: now)
        if duration >= Self.delay, !isTold.exchange(true, ordering: .relaxed) { telemetry.logStaysPinned(for: duration) }
    }
}
