// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation
import GRDB

/// How fast siwatch works, as a second process sees it in the tables.
extension Workplace {
    static let settled = Queue.notification.removedCounter

    /// Settles the notifications in the queue, measured from row to commit.
    ///
    /// - Parameter count: how many there are, each of them news.
    func settleNotifications(_ count: Int) async throws -> (perSecond: Double, ProcessUsage) {
        try await withBackend { backend in
            let end = try await backend.counter(Self.settled) + count
            let usage = try await withDaemon { daemon in
                while try await backend.counter(Self.settled) < end { try await Task.sleep(for: .milliseconds(20)) }
                return try ProcessUsage(of: daemon)
            }
            return (try await settlementsPerSecond(count, backend), usage)
        }
    }

    private var held: URL { folder.url.appending(path: "held.json") }

    /// Puts notifications aside, for `settleHeld`.
    func hold(_ bodies: [String]) throws { try JSONEncoder().encode(bodies).write(to: held) }
    func queueHeld() async throws { try await withBackend { try await queueHeld($0) } }

    private func queueHeld(_ backend: Backend) async throws {
        try await backend.insert(notifications: JSONDecoder().decode([String].self, from: Data(contentsOf: held)))
    }

    /// Settles the held notifications, measured from the one commit that queues them all to the last commit that settles them.
    ///
    /// - Parameter count: how many there are, each of them news.
    func settleHeld(_ count: Int, by replicas: Int = 1) async throws -> HeldRun {
        try await withBackend { backend in
            let run = try await withReplicas(replicas) { daemons in
                let end = try await backend.counter(Self.settled) + count
                let before = try await backend.logPosition(of: self)
                try await queueHeld(backend)
                let start = ContinuousClock.now
                let queued = try await backend.logPosition(of: self)
                while try await backend.counter(Self.settled) < end { try await Task.sleep(for: .milliseconds(5)) }
                let time = ContinuousClock.now - start
                return HeldRun(
                    perSecond: Double(count) / time.inSeconds,
                    processorTime: try daemons.map { try ProcessUsage(of: $0).processorTime }.reduce(.zero, +),
                    logOfInserts: queued - before,
                    logOfSettlements: try await backend.logPosition(of: self) - queued
                )
            }
            try await checkApplied(count, backend)
            return run
        }
    }

    private func checkApplied(_ count: Int, _ backend: Backend) async throws {
        let applied = try await backend.int("SELECT COUNT(*) FROM notification_log WHERE outcome = 'applied'")
        guard applied == count else { throw HarnessError("siwatch applied \(applied) of \(count) notifications") }
    }

    /// Each row has the time at which its commit began. From the first such time to the last lie all commits but the last.
    private func settlementsPerSecond(_ count: Int, _ backend: Backend) async throws -> Double {
        try await checkApplied(count, backend)
        let first = try await backend.int("SELECT MIN(settled_at) FROM notification_log")
        let last = try await backend.int("SELECT MAX(settled_at) FROM notification_log")
        guard first < last else { throw HarnessError("\(count) notifications went in one commit; give more") }
        let settled = try await backend.int("SELECT COUNT(*) FROM notification_log WHERE settled_at < ?", [last])
        return Double(settled) * 1000 / Double(last - first)
    }

    /// Refreshes the tokens of these users, all due at once, measured from request to commit.
    func refresh(_ users: [String], atOnce concurrency: Int) async throws -> RefreshRun {
        try configure(
            refresh: """
                interval = "24h"
                max_requests_per_second = 1000000
                max_concurrent_requests = \(concurrency)
                """
        )
        try await apple.send(ResetCounters())
        return try await withBackend { backend in
            // Make them due, as after a long stop. No backend may write to this column.
            for some in users.inChunks { try await backend.execute("UPDATE credential SET due_at = 1 WHERE user_id IN (\(some))") }
            let answers = try await backend.counter(CheckCounter.answered) + users.count
            let before = try await backend.logPosition(of: self)
            let (end, usage) = try await withDaemon { daemon in
                while try await backend.counter(CheckCounter.answered) < answers { try await Task.sleep(for: .milliseconds(5)) }
                return (Date.now.timeIntervalSince1970, try ProcessUsage(of: daemon))
            }
            let log = try await backend.logPosition(of: self) - before
            try await checkAnswers(users.count)
            // siwatch dates a verification by its request.
            var start = Int.max
            for some in users.inChunks {
                start = min(start, try await backend.int("SELECT MIN(verified_at) FROM credential WHERE user_id IN (\(some))"))
            }
            return RefreshRun(perSecond: Double(users.count) / (end - Double(start) / 1000), usage: usage, log: log)
        }
    }

    /// Discards a run in which siwatch did not ask about each token exactly once.
    private func checkAnswers(_ count: Int) async throws {
        let answers = try await apple.send(ReadCounters()).requests[.token] ?? [:]
        guard answers == ["200": count] else { throw HarnessError("the simulator answered \(answers) instead of 200 to \(count)") }
    }
}

struct RefreshRun: Sendable {
    var perSecond: Double
    var usage: ProcessUsage
    /// Bytes of PostgreSQL's write-ahead log.
    var log: Int
}

struct HeldRun: Sendable {
    var perSecond: Double
    /// The sum over all siwatch processes.
    var processorTime: Duration
    /// Bytes of PostgreSQL's write-ahead log.
    var logOfInserts, logOfSettlements: Int
}

extension Backend {
    func counter(_ name: String) async throws -> Int { try await int("SELECT value FROM counter WHERE name = ?", [name]) }

    /// In bytes; 0 for a file.
    fileprivate func logPosition(of place: Workplace) async throws -> Int {
        place.schema == nil ? 0 : try await int("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
    }
}

extension [String] {
    /// Lists for SQL, of some hundred users each. User names need no escaping.
    fileprivate var inChunks: [String] {
        stride(from: 0, to: count, by: 500).map { start in
            self[start..<Swift.min(start + 500, count)].map { "'\($0)'" }.joined(separator: ", ")
        }
    }
}
