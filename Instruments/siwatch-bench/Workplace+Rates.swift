// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB

/// How fast siwatch works off what is there, as a second process sees it in the tables.
extension Workplace {
    /// The notifications in the queue, from row to commit.
    ///
    /// - Parameter count: how many there are, each of them news.
    func settleNotifications(_ count: Int) async throws -> (perSecond: Double, ProcessUsage) {
        try await withBackend { backend in
            let usage = try await withDaemon { daemon in
                while try await backend.int("SELECT EXISTS (SELECT 1 FROM notification_queue)") == 1 {
                    try await Task.sleep(for: .milliseconds(20))
                }
                return try ProcessUsage(of: daemon)
            }
            return (try await settlementsPerSecond(count, backend), usage)
        }
    }

    /// Each row bears the time at which its commit began. From the first such time to the last one lie the commits of all but the last.
    private func settlementsPerSecond(_ count: Int, _ backend: Backend) async throws -> Double {
        let applied = try await backend.int("SELECT COUNT(*) FROM notification_log WHERE outcome = 'applied'")
        guard applied == count else { throw HarnessError("siwatch applied \(applied) of \(count) notifications") }
        let first = try await backend.int("SELECT MIN(settled_at) FROM notification_log")
        let last = try await backend.int("SELECT MAX(settled_at) FROM notification_log")
        guard first < last else { throw HarnessError("\(count) notifications went in one commit; give more") }
        let settled = try await backend.int("SELECT COUNT(*) FROM notification_log WHERE settled_at < ?", [last])
        return Double(settled) * 1000 / Double(last - first)
    }

    /// The tokens of these users, all of them being due at once, from request to commit.
    func refresh(_ users: [String], atOnce concurrency: Int) async throws -> (perSecond: Double, ProcessUsage) {
        try configure(
            refresh: """
                interval = "24h"
                max_requests_per_second = 1000000
                max_concurrent_requests = \(concurrency)
                """
        )
        try await apple.resetCounters()
        return try await withBackend { backend in
            // As after a long stop; no backend would ever write here.
            for some in users.inChunks { try await backend.execute("UPDATE credential SET due_at = 1 WHERE user_id IN (\(some))") }
            let (end, usage) = try await withDaemon { daemon in
                try await untilNobodyIsDueSoon(backend)
                return (Date.now.timeIntervalSince1970, try ProcessUsage(of: daemon))
            }
            try await checkAnswers(users.count)
            // Verified at the moment of the request.
            var start = Int.max
            for some in users.inChunks {
                start = min(start, try await backend.int("SELECT MIN(verified_at) FROM credential WHERE user_id IN (\(some))"))
            }
            return (Double(users.count) / (end - Double(start) / 1000), usage)
        }
    }

    /// Asks the index of the schedule, which costs next to nothing: a claim moves a due time by minutes, an answer by a day.
    private func untilNobodyIsDueSoon(_ backend: Backend) async throws {
        let soon = Int(Date.now.timeIntervalSince1970 * 1000) + 3_600_000
        let earliest =
            "SELECT MIN(due_at) FROM credential WHERE client = (SELECT id FROM client WHERE client_id = ?) AND due_at IS NOT NULL"
        while try await backend.int(earliest, [Self.clientID]) < soon { try await Task.sleep(for: .milliseconds(5)) }
    }

    /// A run in which Apple was not asked once about each is none.
    private func checkAnswers(_ count: Int) async throws {
        let answers = try await apple.counters().counters.requests[.token] ?? [:]
        guard answers == ["200": count] else { throw HarnessError("the simulator answered \(answers) instead of 200 to \(count)") }
    }
}

extension [String] {
    /// Lists for SQL, of some hundred each. None of a user's name needs escaping.
    fileprivate var inChunks: [String] {
        stride(from: 0, to: count, by: 500).map { start in
            self[start..<Swift.min(start + 500, count)].map { "'\($0)'" }.joined(separator: ", ")
        }
    }
}
