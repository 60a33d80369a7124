// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncAlgorithms
import ServiceLifecycle

/// Tells a loop when to look for work: at once, on a timer, on a hint; never what the work is.
///
/// A sequence that claimed rows in `next()` would lose them: `merge` and `cancelOnGracefulShutdown` may drop an element that was
/// produced and not delivered. A dropped wake-up costs nothing, since the timer brings the next.
package struct Wakeups: Sendable {
    private let hints: AsyncStream<Void>
    private let hinter: AsyncStream<Void>.Continuation
    private let interval: Duration

    package init(every interval: Duration) {
        self.interval = interval
        (hints, hinter) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Wakes the loop soon; several hints may become one wake-up.
    package func hint() {
        hinter.yield()
    }

    /// The wake-ups, until graceful shutdown. To be iterated once.
    ///
    /// The timer runs on a clock that never steps, and its ticks pass a one-place buffer, because it catches up after a stall.
    func untilShutdown() -> some AsyncSequence<Void, Never> {
        let ticks = AsyncTimerSequence(interval: interval, clock: .continuous).map { _ in }
        return chain([()].async, merge(ticks, hints))
            .buffer(policy: .bufferingLatest(1))
            .cancelOnGracefulShutdown()
    }
}
