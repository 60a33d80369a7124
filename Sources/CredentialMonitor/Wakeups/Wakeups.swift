// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncAlgorithms
import ServiceLifecycle

/// Tells a loop when to look for work: at once, on a timer, on a hint. It never says what the work is.
///
/// A sequence that claims rows in `next()` loses rows: `merge` and `cancelOnGracefulShutdown` may drop an element before delivery. A
/// dropped wake-up costs nothing, because the timer brings the next one.
package struct Wakeups: Sendable {
    private let hints: AsyncStream<Void>
    private let hinter: AsyncStream<Void>.Continuation
    private let interval: Duration

    package init(every interval: Duration) {
        self.interval = interval
        (hints, hinter) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Wakes the loop soon. Several hints may become one wake-up.
    package func hint() {
        hinter.yield()
    }

    /// The wake-ups, until graceful shutdown. Iterate once.
    ///
    /// The timer runs on a clock that never steps. Its ticks pass a one-place buffer, because the timer catches up after a stall.
    func untilShutdown() -> some AsyncSequence<Void, Never> {
        let ticks = AsyncTimerSequence(interval: interval, clock: .continuous).map { _ in }
        return chain([()].async, merge(ticks, hints))
            .buffer(policy: .bufferingLatest(1))
            .cancelOnGracefulShutdown()
    }
}
