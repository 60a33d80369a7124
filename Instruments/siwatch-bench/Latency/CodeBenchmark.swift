// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB

/// How long after its commit a code shows as a sign-in, while notifications queue and the checks run at their limit.
struct CodeBenchmark: Sendable {
    let count: Int
    let notifications: Int

    /// `refresh.max_requests_per_second`. Checks run all the time.
    private static let requestsPerSecond = 200
    /// Sign-ins that do not count, because the daemon has just started.
    private static let warmUp = 10
    /// How often each notification is posted. The first is news, the others are duplicates.
    private static let fillings = 12

    func run() async throws -> Section {
        say("Codes")
        return try await Workplace.use { place in
            let users = try await place.makeCredentials(notifications).map(\.userID)
            say("  Apple signs \(notifications) notifications")
            let bodies = try await place.notify(SwitchForwarding(on: false), users)
            try place.configure(refresh: "max_requests_per_second = \(Self.requestsPerSecond)")
            return try await place.withBackend { backend in
                // Make them due at once, as after a long stop. No backend may write to this column.
                try await backend.execute("UPDATE credential SET due_at = 1")
                for _ in 0..<Self.fillings { try await backend.insert(notifications: bodies) }
                let signIns = try await place.apple.signInByCode(Self.warmUp + count)
                return try await place.withDaemon { _ in
                    say("  \(count) people sign in meanwhile")
                    return try await section(measure(signIns, backend))
                }
            }
        }
    }

    private struct Run {
        var times = Latencies()
        var leastQueued = Int.max
        var checked = 0
    }

    private func measure(_ signIns: [SignIn], _ backend: Backend) async throws -> Run {
        let verified = "SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL"
        let before = try await backend.int(verified)
        var run = Run()
        var warmUp = Latencies()
        for signIn in signIns.prefix(Self.warmUp) { try await insert(signIn, backend, &warmUp) }
        for signIn in signIns.dropFirst(Self.warmUp) {
            let queued = try await backend.int("SELECT MAX(id) - MIN(id) FROM notification_queue")
            guard queued >= notifications else { break }
            run.leastQueued = min(run.leastQueued, queued)
            try await insert(signIn, backend, &run.times)
        }
        run.checked = try await backend.int(verified) - before - run.times.latencies.count
        return run
    }

    private func insert(_ signIn: SignIn, _ backend: Backend, _ times: inout Latencies) async throws {
        guard let row = CodeRow(signIn) else { throw HarnessError("a sign-in without a code") }
        let state = "SELECT COUNT(*) FROM user_state WHERE user_id = ? AND app = 'example' AND state = 'authorized'"
        try await times.measure(within: .milliseconds(10)) {
            try await backend.insert(codes: [row])
        } until: {
            try await backend.int(state, [signIn.userID]) > 0
        }
    }

    private func section(_ run: Run) -> Section {
        Section(
            "Codes, from commit to authorized, while notifications queue and checks run at \(Self.requestsPerSecond) a second",
            [
                .init("p50 / p99 / the slowest of \(run.times.latencies.count)", run.times.latencies.figure(0.5, 0.99, 1)),
                .init("the insert itself, p50 / p99", run.times.inserts.figure(0.5, 0.99)),
                .init("notifications that waited, at least", "\(run.leastQueued)"),
                .init("tokens checked meanwhile", "\(run.checked)"),
            ],
            arguments: "--only codes --codes \(count)"
        )
    }
}
