// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncAlgorithms
package import CredentialCore
import ServiceLifecycle

/// Tells a loop when to look for work: at once, on a timer, on a hint. A sequence that claims rows in `next()` loses rows: `merge` and
/// `cancelOnGracefulShutdown` may drop an element. A dropped wake-up costs nothing, because the timer brings the next one.
package struct Wakeups: Sendable {
    private let hints: AsyncStream<Void>
    private let hinter: AsyncStream<Void>.Continuation
    private let interval: Duration

    package init(every interval: Duration) {
        self.interval = interval
        (hints, hinter) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Wakes the loop soon. Several hints may become one wake-up.
    package func hint() { hinter.yield() }

    /// The wake-ups, until graceful shutdown, by a clock that never steps. The ticks pass a one-place buffer, because the timer catches up
    /// after a stall. Iterate once.
    func untilShutdown() -> some AsyncSequence<Void, Never> {
        let ticks = AsyncTimerSequence(interval: interval, clock: .continuous).map { _ in }
        return chain([()].async, merge(ticks, hints))
            .buffer(policy: .bufferingLatest(1))
            .cancelOnGracefulShutdown()
    }
}

/// Wakes the loops over queues when any process commits, so that a row is handled within milliseconds of its insert. Only siwatch changes a
/// schedule, and then wakes the loop itself.
package struct CommitHints: Service {
    private let watch: any CommitWatch
    private let wakeups: [Wakeups]

    package init(_ watch: any CommitWatch, wakeups: [Wakeups]) {
        self.watch = watch
        self.wakeups = wakeups
    }

    package func run() async throws {
        for await _ in watch.commits().cancelOnGracefulShutdown() {
            for wakeup in wakeups { wakeup.hint() }
        }
        // Before a stop the sequence does not end by itself.
        try? await gracefulShutdown()
    }
}

/// Repeats a task until shutdown. A failed turn is reported, and the next turn still comes.
package struct Recurring: Service {
    private let interval: Duration
    private let body: @Sendable () async throws -> Void
    private let onFailure: @Sendable (any Error) -> Void

    package init(
        every interval: Duration,
        onFailure: @escaping @Sendable (any Error) -> Void,
        _ body: @escaping @Sendable () async throws -> Void
    ) {
        (self.interval, self.body, self.onFailure) = (interval, body, onFailure)
    }

    package func run() async throws {
        for await _ in Wakeups(every: interval).untilShutdown() {
            do {
                try await cancelWhenGracefulShutdown { try await body() }
            } catch is CancellationError {
                // The process ends. The next process goes on with the task.
            } catch {
                onFailure(error)
            }
        }
    }
}
