// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers
import Synchronization

/// What a loop has claimed: pieces of work under way, each in a hand of its own, and others in reserve.
final class Hands<Work: Sendable>: Sendable {
    private struct State {
        var busy = 0
        /// The next one last, and until when each may be taken up.
        var reserve: [(work: Work, end: ContinuousClock.Instant)] = []
        var throughput = Throughput(at: .now)
    }

    private let state = NIOLockedValueBox(State())
    private let isWaiting = Atomic<Bool>(false)
    private let isHinted = Atomic<Bool>(false)

    /// Whether the loop has been hinted at since it last woke.
    var hasHinted: Bool {
        get { isHinted.load(ordering: .relaxed) }
        set { isHinted.store(newValue, ordering: .relaxed) }
    }

    /// How many pieces of work are under way or in reserve, and how many are done in a second.
    var counts: (claimed: Int, donePerSecond: Int) {
        state.withLockedValue { ($0.busy + $0.reserve.count, $0.throughput.perSecond(at: .now)) }
    }

    /// - Returns: what is to be taken up at once. The rest is kept in reserve.
    func receive(_ work: [Work], width: Int, longestWait: Duration) -> ArraySlice<Work> {
        let end = ContinuousClock.now + longestWait
        return state.withLockedValue { state in
            let taken = work.prefix(max(width - state.busy, 0))
            state.busy += taken.count
            state.reserve = work.dropFirst(taken.count).reversed().map { ($0, end) } + state.reserve
            return taken
        }
    }

    /// One piece of work is done.
    func finish() {
        state.withLockedValue { $0.throughput.add(at: .now) }
    }

    /// What a hand takes up after it has finished something; nil where it is to rest.
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

    /// Whether the caller is the one to wait: one delayed hint at a time is enough.
    func startWaiting() -> Bool {
        !isWaiting.exchange(true, ordering: .relaxed)
    }

    func stopWaiting() {
        isWaiting.store(false, ordering: .relaxed)
    }
}
