// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Callers that wait for news of the store, with one look for all of them, while somebody waits. On a server the news may come from another
/// replica, so events of this process would not do alone.
actor Waiters<Key: Hashable & Sendable, News: Sendable> {
    private let interval: Duration
    private let look: @Sendable (Set<Key>) async throws -> [Key: News]
    private var waiting: [Key: [Waiter]] = [:]
    private var isLooking = false
    private var isHinted = false
    private var pause: Task<Void, any Error>?
    private var isEnded = false
    /// How often everybody was let go.
    private(set) var releases = 0

    private struct Waiter {
        var deadline: ContinuousClock.Instant
        var answer: CheckedContinuation<News?, Never>
    }

    /// After a look that failed.
    private static var respite: Duration { .milliseconds(500) }

    init(every interval: Duration, look: @escaping @Sendable (Set<Key>) async throws -> [Key: News]) {
        self.interval = interval
        self.look = look
    }

    /// - Parameter releases: as the caller has read it; `letGo` may have been called since.
    /// - Returns: nil if there is no news in time, or once `letGo` or `end` was called.
    func news(of key: Key, within limit: Duration, since releases: Int? = nil) async -> News? {
        guard !isEnded, limit > .zero, releases ?? self.releases == self.releases else { return nil }
        return await withCheckedContinuation { answer in
            waiting[key, default: []].append(Waiter(deadline: .now + limit, answer: answer))
            guard !isLooking else { return }
            isLooking = true
            // Not a child of the first caller, because others wait for it as well. It ends once nobody waits.
            Task { await lookOut() }
        }
    }

    /// Looks at once, because this process knows of news. Hints during a look share the next one, so that a slow store is not asked for each.
    func hint() {
        isHinted = true
        pause?.cancel()
    }

    func letGo() {
        releases += 1
        let waiters = waiting.values.flatMap(\.self)
        waiting = [:]
        for waiter in waiters { waiter.answer.resume(returning: nil) }
    }

    /// Lets everybody go, because siwatch stops.
    func end() {
        isEnded = true
        letGo()
    }

    private func lookOut() async {
        while !waiting.isEmpty {
            isHinted = false
            let hasLooked = await answerWithNews()
            let now = ContinuousClock.now
            for (key, waiters) in waiting {
                let left = waiters.filter { $0.deadline > now }
                guard left.count < waiters.count else { continue }
                waiting[key] = left.isEmpty ? nil : left
                for waiter in waiters where waiter.deadline <= now { waiter.answer.resume(returning: nil) }
            }
            guard !waiting.isEmpty, !isHinted else { continue }
            let pause = Task { try await Task.sleep(for: hasLooked ? interval : Self.respite) }
            self.pause = pause
            _ = await pause.result
        }
        isLooking = false
    }

    /// - Returns: whether the store could be asked. If not, everybody waits on, because it may be there again in time.
    private func answerWithNews() async -> Bool {
        guard let found = try? await look(Set(waiting.keys)) else { return false }
        for (key, news) in found {
            for waiter in waiting.removeValue(forKey: key) ?? [] { waiter.answer.resume(returning: news) }
        }
        return true
    }
}
