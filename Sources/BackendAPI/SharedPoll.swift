// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Waits for news of the store on behalf of many callers, with one look for all of them.
///
/// It asks only while somebody waits. On a server the news may come from another replica, so events of this process would not do alone.
actor SharedPoll<Key: Hashable & Sendable, News: Sendable> {
    private let interval: Duration
    private let look: @Sendable (Set<Key>) async throws -> [Key: News]
    private var waiting: [Key: [Waiter]] = [:]
    private var isPolling = false
    private var (isHinted, isLooking) = (false, false)
    private var isEnded = false

    private struct Waiter {
        var deadline: ContinuousClock.Instant
        var answer: CheckedContinuation<News?, any Error>
    }

    /// - Parameter look: returns the news that there are for some of the keys.
    init(every interval: Duration, look: @escaping @Sendable (Set<Key>) async throws -> [Key: News]) {
        self.interval = interval
        self.look = look
    }

    /// - Returns: nil if there is no news in time, or once `end` was called.
    func news(of key: Key, within limit: Duration) async throws -> News? {
        guard !isEnded, limit > .zero else { return nil }
        return try await withCheckedThrowingContinuation { answer in
            waiting[key, default: []].append(Waiter(deadline: .now + limit, answer: answer))
            guard !isPolling else { return }
            isPolling = true
            // Not a child of the first caller, because others wait for it as well.
            Task { await poll() }
        }
    }

    /// Looks at once, because this process knows of news.
    func hint() async {
        guard !waiting.isEmpty else { return }
        isHinted = true
        guard !isLooking else { return }
        isLooking = true
        // Hints that come meanwhile share the next look, so that a slow store is not asked once for each.
        while isHinted {
            isHinted = false
            await answerWithNews()
        }
        isLooking = false
    }

    /// Lets everybody go, because siwatch stops.
    func end() {
        isEnded = true
        answerAll { $0.resume(returning: nil) }
    }

    private func poll() async {
        while !waiting.isEmpty {
            await answerWithNews()
            let now = ContinuousClock.now
            for (key, waiters) in waiting {
                let left = waiters.filter { $0.deadline > now }
                guard left.count < waiters.count else { continue }
                waiting[key] = left.isEmpty ? nil : left
                for waiter in waiters where waiter.deadline <= now { waiter.answer.resume(returning: nil) }
            }
            if !waiting.isEmpty { try? await Task.sleep(for: interval) }
        }
        isPolling = false
    }

    private func answerWithNews() async {
        do {
            for (key, news) in try await look(Set(waiting.keys)) {
                for waiter in waiting.removeValue(forKey: key) ?? [] { waiter.answer.resume(returning: news) }
            }
        } catch {
            answerAll { $0.resume(throwing: error) }
        }
    }

    private func answerAll(_ answer: (CheckedContinuation<News?, any Error>) -> Void) {
        let waiters = waiting.values.flatMap(\.self)
        waiting = [:]
        for waiter in waiters { answer(waiter.answer) }
    }
}
