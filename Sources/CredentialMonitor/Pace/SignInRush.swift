// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Whether people are signing in by code now. Other work then runs in short steps, so that nobody waits long for a processor or a lock.
package final class SignInRush: Sendable {
    private let since = NIOLockedValueBox<ContinuousClock.Instant?>(nil)

    /// After one sign-in by code, the next one is probably near.
    private static let memory = Duration.minutes(10)

    func begin() { since.withLockedValue { $0 = .now } }

    var isOn: Bool { since.withLockedValue { $0 }.map { ContinuousClock.now - $0 < Self.memory } ?? false }
}

/// Commits with gaps so short that a process which tries the lock now and then rarely meets one.
package struct CommitBurst {
    private var start: Timestamp
    private var end: Timestamp

    /// A gap of this length ends the rush.
    private static let breath = Duration.milliseconds(50)
    /// How long a rush lasts before backends get their turn: less than half of the five seconds for which they wait for the lock.
    private static let longest = Duration.seconds(2)

    package init(at now: Timestamp) {
        (start, end) = (now, now)
    }

    package mutating func begin(at now: Timestamp) {
        // A start in the future means that the clock was set back.
        if now < start || end.advanced(by: Self.breath) <= now { start = now }
    }

    /// - Returns: whether backends must get their turn.
    package mutating func isLong(at now: Timestamp) -> Bool {
        end = now
        return start.advanced(by: Self.longest) < now
    }
}
