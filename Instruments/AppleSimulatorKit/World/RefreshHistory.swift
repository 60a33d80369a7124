// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// When the refresh token of one sign-in was asked about.
package struct RefreshHistory: Sendable {
    /// How many of the moments are kept: the latest.
    static let kept = 256

    /// Every request, whatever became of it.
    package private(set) var requests = 0
    /// Those that got a 200 or an `invalid_grant`, scripted ones included. A lost answer is none.
    package private(set) var answers = 0
    /// When they were answered, by Apple's clock, oldest first.
    package private(set) var answeredAt: [Moment] = []

    mutating func record(isAnswer: Bool, at now: Moment) {
        requests += 1
        guard isAnswer else { return }
        answers += 1
        if answeredAt.count == Self.kept { answeredAt.removeFirst() }
        answeredAt.append(now)
    }

    /// The shortest time between two answers: it proves that nobody was asked twice in a day.
    package var shortestGap: Duration? {
        zip(answeredAt, answeredAt.dropFirst()).map { $1 - $0 }.min()
    }
}
