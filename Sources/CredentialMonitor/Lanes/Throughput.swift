// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How many pieces of work are done in a second, counted over half a second.
package struct Throughput {
    private var start: ContinuousClock.Instant
    private var count = 0
    private var before = 0

    private static let period = Duration.milliseconds(500)

    package init(at now: ContinuousClock.Instant) {
        start = now
    }

    package mutating func add(at now: ContinuousClock.Instant) {
        turn(at: now)
        count += 1
    }

    /// By this period or the one before, whichever is busier.
    package mutating func perSecond(at now: ContinuousClock.Instant) -> Int {
        turn(at: now)
        return max(count, before) * 2
    }

    private mutating func turn(at now: ContinuousClock.Instant) {
        guard now - start >= Self.period else { return }
        before = now - start < Self.period * 2 ? count : 0
        (count, start) = (0, now)
    }
}
