// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers
import Synchronization

/// The claimed work of one loop: pieces under way, each in a hand of its own, and pieces in reserve.
final class WorkPool<Work: Sendable>: Sendable {
    private struct State {
        var busy = 0
        /// Each piece, and until when it may be taken up. The next piece is last.
        var reserve: [(work: Work, end: ContinuousClock.Instant)] = []
        var throughput = Throughput(at: .now)
    }

    private let state = NIOLockedValueBox(State())
    private let isWaiting = Atomic<Bool>(false)
    private let isHinted = Atomic<Bool>(false)

    /// Whether the loop has had a hint since it last woke.
    var hasHinted: Bool {
        get { isHinted.load(ordering: .relaxed) }
        set { isHinted.store(newValue, ordering: .relaxed) }
    }

    var counts: (claimed: Int, donePerSecond: Int) {
        state.withLockedValue { ($0.busy + $0.reserve.count, $0.throughput.perSecond(at: .now)) }
    }

    /// - Returns: the pieces to take up at once. The rest stay in reserve.
    func receive(_ work: [Work], width: Int, longestWait: Duration) -> ArraySlice<Work> {
        let end = ContinuousClock.now + longestWait
        return state.withLockedValue { state in
            let taken = work.prefix(max(width - state.busy, 0))
            state.busy += taken.count
            state.reserve = work.dropFirst(taken.count).reversed().map { ($0, end) } + state.reserve
            return taken
        }
    }

    func finish() { state.withLockedValue { $0.throughput.add(at: .now) } }

    /// The next piece for a hand that has finished one. Nil if the hand must rest.
    func next(width: Int) -> Work? {
        let now = ContinuousClock.now
        return state.withLockedValue { state in
            while state.busy <= width, let (work, end) = state.reserve.popLast() {
                if now < end { return work }
            }
            state.busy -= 1
            return nil
        }
    }

    /// Whether the caller may begin to wait. One delayed hint at a time is enough.
    func startWaiting() -> Bool { !isWaiting.exchange(true, ordering: .relaxed) }

    func stopWaiting() { isWaiting.store(false, ordering: .relaxed) }
}

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
