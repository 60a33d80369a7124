// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation

/// The speed of claims while a reader holds one snapshot of PostgreSQL open, for which all rows stay that were deleted or moved since.
struct SnapshotBenchmark: Sendable {
    let length: Duration
    let users: Int

    /// How many of each siwatch settles a second meanwhile.
    private static let perSecond = 200
    private static let claims = 90
    private static let claimed = 64
    private static let pause = Duration.milliseconds(100)
    /// The time until a new process knows which lanes are empty.
    private static let warmUp = Duration.seconds(6)
    /// The batch size of siwatch on two cores.
    private static let most = 8192

    func run() async throws -> Section {
        say("A snapshot held open")
        return try await Workplace.use(on: .postgres) { place in
            let signIns = try await place.makeCredentials(users).map(\.userID)
            let bodies = try await place.notify(SwitchForwarding(on: false), signIns)
            let leaving = try await place.makeCredentials(Self.claims * 2).map(\.userID)
            let endings = try await place.notify(RevokeConsent(), leaving)
            return try await place.withBackend { backend in
                func latencies(_ part: Range<Int>) async throws -> [Duration] {
                    try await place.latencies(of: Array(zip(leaving[part], endings[part])), until: "revoked", backend) {
                        try await backend.insert(notifications: [$0])
                    }.latencies
                }
                var before = try await claims(bodies, place)
                before.latencies = try await place.withDaemon { _ in
                    try await Task.sleep(for: Self.warmUp)
                    return try await latencies(0..<Self.claims)
                }
                // Clear the rows of the previous measurement, which the snapshot does not hold.
                try await place.vacuum()
                let (work, during) = try await place.withBackend { reader in
                    try await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                    _ = try await reader.int("SELECT COUNT(*) FROM user_state")
                    let (work, meanwhile) = try await load(bodies, place) { try await latencies(Self.claims..<Self.claims * 2) }
                    var during = try await claims(bodies, place)
                    during.latencies = meanwhile
                    try await reader.execute("COMMIT")
                    return (work, during)
                }
                return section(before, during, work)
            }
        }
    }

    private struct Times {
        var notifications: [Duration] = []
        var checks: [Duration] = []
        var looks: [Duration] = []
        var latencies: [Duration] = []
    }

    private struct Work {
        var notifications = 0
        var checks = 0
        var dead = 0
    }

    /// Adds notifications and checks at a rate below siwatch's limit. Then `body` runs on the same process.
    private func load<Result>(_ bodies: [String], _ place: Workplace, _ body: () async throws -> Result) async throws -> (Work, Result) {
        say("  siwatch works for \(length) meanwhile")
        try place.configure(refresh: "interval = \"24h\"\nmax_requests_per_second = \(Self.perSecond)")
        defer { try? place.configure() }
        return try await place.withBackend { backend in
            let checked = try await backend.counter(CheckCounter.answered)
            var work = Work()
            let result = try await place.withDaemon { _ in
                let start = ContinuousClock.now
                while ContinuousClock.now - start < length {
                    let first = work.notifications % bodies.count
                    let some = bodies[first..<min(first + Self.perSecond / 10, bodies.count)]
                    try await backend.insert(notifications: Array(some))
                    work.notifications += some.count
                    // As many checks as notifications.
                    if first == 0 { try await place.makeDue(within: .seconds(bodies.count) / Self.perSecond, backend) }
                    try await Task.sleep(until: start + .seconds(1) * work.notifications / Self.perSecond, clock: .continuous)
                }
                return try await body()
            }
            work.checks = try await backend.counter(CheckCounter.answered) - checked
            // On request, the server counts the rows that it cannot clear yet.
            try await backend.execute("VACUUM notification_queue")
            work.dead = try await backend.int("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'notification_queue'")
            return (work, result)
        }
    }

    /// Runs the daemon's own code. The daemon is stopped. Each claim is a commit, and its rows arrive just before it.
    private func claims(_ bodies: [String], _ place: Workplace) async throws -> Times {
        let store = try place.openStore()
        var times = Times()
        let lease = Duration.seconds(60)
        try await place.withBackend { backend in
            let rounds = Int(Self.warmUp / Self.pause) + Self.claims
            guard rounds * Self.claimed <= users else { throw HarnessError("\(rounds * Self.claimed) users are needed") }
            let begin = ContinuousClock.now
            try await place.makeDue(within: Self.pause * rounds * 3 / 4, backend)
            try await Task.sleep(for: .seconds(1))
            for round in 1...rounds {
                try await backend.insert(notifications: Array(bodies.prefix(Self.claimed)))
                let start = ContinuousClock.now
                let found = try await store.claimNotifications(upTo: Self.most, at: .current, lease: lease, suspects: true)
                let claimed = ContinuousClock.now
                let none = try await store.claimNotifications(upTo: Self.most, at: .current, lease: lease, suspects: true)
                let looked = ContinuousClock.now
                let due = try await store.claimDue(Self.claimed, at: .current)
                let picked = ContinuousClock.now
                guard found.count == Self.claimed, none.isEmpty, due.count == Self.claimed else {
                    throw HarnessError("\(found.count) and \(none.count) notifications and \(due.count) checks were claimed")
                }
                if begin.duration(to: start) > Self.warmUp {
                    times.notifications.append(claimed - start)
                    times.looks.append(looked - claimed)
                    times.checks.append(picked - looked)
                }
                try await Task.sleep(until: begin + .seconds(1) + Self.pause * round, clock: .continuous)
            }
            try await backend.execute("DELETE FROM notification_queue")
        }
        try await store.close()
        return times
    }

    private func section(_ before: Times, _ during: Times, _ work: Work) -> Section {
        func row(_ label: String, _ times: (Times) -> [Duration]) -> [Section.Row] {
            let (usual, held) = (times(before).percentile(0.5), times(during).percentile(0.5))
            return [
                .init("\(label), usual, p50", usual.inMilliseconds),
                .init("  while the snapshot is held, p50", held.inMilliseconds, ratio: (held / usual).rounded(to: 2)),
                .init("  and p99", times(during).percentile(0.99).inMilliseconds),
            ]
        }
        return Section(
            """
            PostgreSQL: a snapshot held open for \(length), \(work.notifications) notifications and \(work.checks) checks settled meanwhile \
            (× = as long as usual)
            """,
            row("to claim \(Self.claimed) notifications", \.notifications)
                + row("to find that there is none", \.looks)
                + row("to pick \(Self.claimed) checks", \.checks)
                + row("from commit to state", \.latencies)
                + [.init("dead rows in the queue at the end", "\(work.dead)")],
            arguments: "--only postgres-snapshot --snapshot-minutes \(Int(length.inSeconds / 60))"
        )
    }
}

extension Timestamp {
    fileprivate static var current: Timestamp { Timestamp(milliseconds: Int64(Date.now.timeIntervalSince1970 * 1000)) }
}

extension Workplace {
    /// Makes all checks due, one after the other, from now on. No backend may write to this column.
    fileprivate func makeDue(within time: Duration, _ backend: Backend) async throws {
        let milliseconds = Int(time.inSeconds * 1000)
        try await backend.execute(
            """
            UPDATE credential SET due_at = floor(extract(epoch FROM now()) * 1000 + random() * \(milliseconds)), claimed_by = NULL
             WHERE due_at IS NOT NULL
            """
        )
    }
}
