// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Commits with gaps so short that a process which tries the lock now and then rarely meets one.
package struct CommitBurst {
    private var start: Timestamp
    private var end: Timestamp

    /// A gap of this length ends the rush.
    private static let breath = Duration.milliseconds(50)
    /// How long a rush lasts before backends get their turn. Less than half of the five seconds for which docs/backend-sqlite.md asks them
    /// to wait for the lock.
    private static let longest = Duration.seconds(2)

    package init(at now: Timestamp) {
        (start, end) = (now, now)
    }

    /// - Parameter now: the start of a commit.
    package mutating func begin(at now: Timestamp) {
        // A start in the future means that the clock was set back.
        if now < start || end.advanced(by: Self.breath) <= now { start = now }
    }

    /// - Parameter now: the end of a commit.
    /// - Returns: whether backends must get their turn.
    package mutating func isLong(at now: Timestamp) -> Bool {
        end = now
        return start.advanced(by: Self.longest) < now
    }
}
