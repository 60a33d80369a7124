// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The requests about the refresh token of one sign-in.
package struct RefreshHistory: Sendable {
    /// How many of the latest moments it keeps.
    static let kept = 256

    /// Every request, whatever its outcome.
    package private(set) var requests = 0
    /// Requests that got a 200 or an `invalid_grant`, scripted ones included. A lost answer does not count.
    package private(set) var answers = 0
    /// When Apple answered them, by its clock, oldest first.
    package private(set) var answeredAt: [Moment] = []

    mutating func record(isAnswer: Bool, at now: Moment) {
        requests += 1
        guard isAnswer else { return }
        answers += 1
        if answeredAt.count == Self.kept { answeredAt.removeFirst() }
        answeredAt.append(now)
    }

    /// The shortest time between two answers. It proves that the program asked about no token twice in a day.
    package var shortestGap: Duration? {
        zip(answeredAt, answeredAt.dropFirst()).map { $1 - $0 }.min()
    }
}
