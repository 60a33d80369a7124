// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness

/// Keeps the queue full of notifications that siwatch has settled before. They are duplicates, which it still verifies and logs.
struct FullQueue: Sendable {
    private let backend: Backend
    /// How many notifications there are; the queue holds each of them several times.
    private let count: Int
    /// The counter before the first duplicate.
    private let start: Int
    private(set) var inserted = 0

    /// More than siwatch settles from one look to the next.
    private static let depth = 20_000
    static let pause = Duration.milliseconds(50)

    /// Lets siwatch settle the notifications a first time.
    init(_ bodies: [String], of place: Workplace, _ backend: Backend) async throws {
        try await backend.insert(notifications: bodies)
        // The database copies rows faster than a backend inserts them, and leaves more of the processor to siwatch.
        try await backend.execute("CREATE TEMPORARY TABLE settled_before AS SELECT payload FROM notification_queue")
        let end = try await backend.counter(Workplace.settled) + bodies.count
        try await place.withDaemon { _ in
            while try await backend.counter(Workplace.settled) < end { try await Task.sleep(for: Self.pause) }
        }
        (self.backend, count, start) = (backend, bodies.count, end)
    }

    func settled() async throws -> Int { try await backend.counter(Workplace.settled) - start }

    /// - Returns: how many were settled before it filled the queue.
    @discardableResult
    mutating func fill() async throws -> Int {
        let done = try await settled()
        while inserted - done < Self.depth {
            try await backend.execute("INSERT INTO notification_queue (payload) SELECT payload FROM settled_before")
            inserted += count
        }
        return done
    }

    mutating func perSecond(during time: Duration) async throws -> Double {
        let (start, first) = (ContinuousClock.now, try await fill())
        while ContinuousClock.now - start < time {
            try await Task.sleep(for: Self.pause)
            try await fill()
        }
        let done = try await settled() - first
        return Double(done) / (ContinuousClock.now - start).inSeconds
    }

    /// Waits until siwatch has settled all of them, each once.
    func drain(within limit: Duration) async throws {
        let start = ContinuousClock.now
        var done = try await settled()
        while done < inserted, ContinuousClock.now - start < limit {
            try await Task.sleep(for: Self.pause)
            done = try await settled()
        }
        let logged = try await backend.int("SELECT COUNT(*) FROM notification_log WHERE outcome = 'duplicate'")
        let left = try await backend.int("SELECT COUNT(*) FROM notification_queue")
        guard logged == inserted, done == inserted, left == 0 else {
            throw HarnessError("of \(inserted) notifications siwatch settled \(done), logged \(logged) and left \(left)")
        }
    }
}
