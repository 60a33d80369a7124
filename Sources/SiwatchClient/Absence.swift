// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// Which calls are answered at once, because siwatch has not answered the last call of their kind.
final class Absence: Sendable {
    private let length: Duration
    /// By the patience of calls: a full disk keeps sign-ins out and answers questions.
    private let quietUntil = NIOLockedValueBox<[Duration: ContinuousClock.Instant]>([:])

    init(length: Duration) { self.length = length }

    /// Throws while siwatch is away. Of the calls that come later, one finds out whether siwatch is back, and the others do not wait for it.
    func check(patience: Duration) throws {
        let left: Duration? = quietUntil.withLockedValue { [length] until in
            let now = ContinuousClock.now
            guard let end = until[patience] else { return nil }
            if end <= now { until[patience] = now + length }
            return end - now
        }
        guard let left, left > .zero else { return }
        let tenths = ((left / Duration.seconds(1)) * 10).rounded() / 10
        throw SiwatchError(title: "siwatch is away", detail: "asked again in \(tenths) s", retryAfter: left)
    }

    func begin(patience: Duration) { quietUntil.withLockedValue { [length] in $0[patience] = .now + length } }

    func end(patience: Duration) { quietUntil.withLockedValue { $0[patience] = nil } }
}
