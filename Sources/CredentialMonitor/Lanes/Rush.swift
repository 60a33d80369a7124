// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Commits that follow one another with gaps so short that whoever looks now and then seldom meets one.
package struct Rush {
    private var start: Timestamp
    private var end: Timestamp

    /// A gap that ends it.
    private static let breath = Duration.milliseconds(50)
    /// How long it lasts before others get their turn at the database: less than half of what a backend waits for its lock, of the five
    /// seconds that docs/schema.md asks for.
    private static let longest = Duration.seconds(2)

    package init(at now: Timestamp) {
        (start, end) = (now, now)
    }

    /// - Parameter now: the start of a commit.
    package mutating func begin(at now: Timestamp) {
        // A start that has yet to come is from a clock that has since been set back.
        if now < start || end.advanced(by: Self.breath) <= now { start = now }
    }

    /// - Parameter now: the end of a commit.
    /// - Returns: whether others are to get their turn.
    package mutating func isLong(at now: Timestamp) -> Bool {
        end = now
        return start.advanced(by: Self.longest) < now
    }
}
