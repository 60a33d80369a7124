// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation
import GRDB

/// The cost of a large table: settling, refreshing, claiming, starting, and a backend's look-ups while siwatch works as fast as it can.
struct ScaleBenchmark: Sendable {
    /// Numbers of credentials, ascending. The report compares each size with the first.
    let sizes: [Int]
    /// How many of the present users sign in, are refreshed, and leave.
    let users: Int
    let store: Store

    private static let claims = 200
    private static let claimed = 64
    private static let atOnce = 64

    func run() async throws -> Section {
        say("Scale on \(store.rawValue)")
        var rows: [Section.Row] = []
        var first: Measured?
        for size in sizes {
            rows += try await Workplace.use(on: store) { place in
                let signIns = try await place.makeCredentials(users)
                let table = CredentialTable(size: size)
                say("  \(table.name) credentials")
                try await table.fill(place)
                let bytes = try await place.size()
                let ready = try await start(place)
                let (refreshed, settled) = try await work(signIns, place)
                let lookUps = size == sizes.last ? try await lookUp(table, signIns.map(\.userID), place) : []
                let measured = Measured(claim: try await pick(place), refreshed: refreshed, settled: settled)
                defer { first = first ?? measured }
                return measured.rows(beside: first, table)
                    + [
                        .init("  from start to ready", ready.inMilliseconds),
                        .init("  on disk, for each user", "\(bytes / (size + users)) bytes"),
                    ]
                    + lookUps
            }
        }
        return Section(
            "Large tables on \(store.rawValue) (× = as long, or as fast, as with \(CredentialTable(size: sizes[0]).name))",
            rows,
            arguments: "\(arguments) --notifications \(users)"
        )
    }

    private var arguments: String {
        let (part, option) = store == .sqlite ? ("scale", "--sizes") : ("postgres-scale", "--postgres-sizes")
        return (["--only \(part)"] + sizes.map { "\(option) \($0)" }).joined(separator: " ")
    }

    private struct Measured {
        var claim: Duration
        /// Per second.
        var refreshed, settled: Double

        func rows(beside first: Measured?, _ table: CredentialTable) -> [Section.Row] {
            func ratio(_ value: (Measured) -> Double) -> String? { first.map { (value(self) / value($0)).rounded(to: 2) } }
            let label = "\(table.name) credentials: to pick \(ScaleBenchmark.claimed) that are due, p50"
            return [
                .init(label, claim.inMilliseconds, ratio: ratio(\.claim.inSeconds)),
                .init("  refreshes, \(ScaleBenchmark.atOnce) at once", refreshed.perSecond, ratio: ratio(\.refreshed)),
                .init("  notifications", settled.perSecond, ratio: ratio(\.settled)),
            ]
        }
    }

    /// Switching mail off ends no sign-in. The users leave later.
    private func work(_ signIns: [SignIn], _ place: Workplace) async throws -> (refreshed: Double, settled: Double) {
        // Apple repeats its answer to a token for a minute here, because signing a new one takes longer than all else.
        _ = try await BareClient(place, signIns).answersPerSecond(atOnce: Self.atOnce)
        let users = signIns.map(\.userID)
        let refreshed = try await place.refresh(users, atOnce: Self.atOnce).perSecond
        let bodies = try await place.notify(SwitchForwarding(on: false), users)
        try await place.withBackend { try await $0.insert(notifications: bodies) }
        return (refreshed, try await place.settleNotifications(users.count).perSecond)
    }

    private func start(_ place: Workplace) async throws -> Duration {
        let start = ContinuousClock.now
        return try await place.withDaemon { _ in ContinuousClock.now - start }
    }

    /// Runs the daemon's own code. The commit that makes the claim durable is included.
    private func pick(_ place: Workplace) async throws -> Duration {
        let store = try place.openStore()
        let later = Timestamp(milliseconds: Int64(Date.now.timeIntervalSince1970 * 1000)).advanced(by: CredentialTable.allDue)
        var times: [Duration] = []
        while times.count < Self.claims {
            let start = ContinuousClock.now
            let due = try await store.claimDue(Self.claimed, at: later)
            times.append(ContinuousClock.now - start)
            // The smallest table soon runs out of due credentials.
            if due.count < Self.claimed { break }
        }
        try await store.close()
        return times.percentile(0.5)
    }

    private func lookUp(_ table: CredentialTable, _ users: [String], _ place: Workplace) async throws -> [Section.Row] {
        let bodies = try await place.notify(RevokeConsent(), users)
        return try await place.withBackend { backend in
            let idle = try await lookUps(table, backend) { index in index < 5_000 }
            try await backend.insert(notifications: bodies)
            let end = try await backend.counter(Workplace.settled) + bodies.count
            return try await place.withDaemon { daemon in
                let loaded = try await lookUps(table, backend) { index in
                    guard index % 100 == 0 else { return true }
                    return try await backend.counter(Workplace.settled) < end
                }
                let usage = try ProcessUsage(of: daemon)
                let load = "while siwatch settles \(users.count) notifications"
                return [
                    .init("  a backend's look-up, siwatch stopped, p50 / p99", idle.figure(0.5, 0.99, digits: 2)),
                    .init("  a backend's look-up \(load), p50 / p99", loaded.figure(0.5, 0.99, digits: 2)),
                    .init("  the longest of \(loaded.count)", loaded.percentile(1).inMilliseconds),
                    .init("  siwatch's resident memory afterwards", usage.memory),
                ]
            }
        }
    }

    private func lookUps(
        _ table: CredentialTable,
        _ backend: Backend,
        while isWanted: (Int) async throws -> Bool
    ) async throws -> [Duration] {
        let state = "SELECT state = 'authorized' FROM credential_state WHERE app = 'example' AND client_id = ? AND user_id = ?"
        var times: [Duration] = []
        while try await isWanted(times.count) {
            let user = table.user(Int.random(in: 0..<table.size))
            let start = ContinuousClock.now
            // Stay on one thread, as a backend does, because switching threads takes longer than the look-up.
            let found = try await backend.rows(state, [Workplace.clientID, user])
            guard found.first?[0] == 1 else { throw HarnessError("nobody knows \(user)") }
            times.append(ContinuousClock.now - start)
        }
        return times
    }
}
