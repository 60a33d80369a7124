// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Synchronization

/// Reports a reader that keeps erased tokens readable, in a file's log or in dead rows of a server: once when it has stayed for a minute,
/// once when it has gone.
package final class ErasureBlocker: Sendable {
    private let telemetry: Telemetry
    private let isTold = Atomic<Bool>(false)

    /// Longer than a reader should read.
    private static let delay = Duration.minutes(1)

    package init(telemetry: Telemetry) {
        self.telemetry = telemetry
    }

    /// Another replica observes from now on.
    package func leaveToOthers() {
        isTold.store(false, ordering: .relaxed)
    }

    /// - Parameter since: since when erased data could not be cleared away. Nil if it can be cleared.
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
