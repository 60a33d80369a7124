// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB

extension ReplicaFleet {
    /// After this time another replica may take over a claim. A claim lasts a minute.
    private static let claim = Duration.seconds(50)

    func strike(_ fault: FleetFault) async throws {
        history.strikes[fault.kind, default: 0] += 1
        if isHealed { raging = [] }
        raging.append(fault)
        isHealed = false
        if let index = fault.struck { replicas[index].name = try await name(of: index) }
        switch fault {
        case .kill(let index):
            weigh(index)
            replicas[index].life?.process.signal(SIGKILL)
            await buryAfterItsEnd(index)
        case .freeze(let index):
            replicas[index].apartSince = .now
            replicas[index].isFrozen = true
            try await replicas[index].life?.process.freeze()
        case .endOfSession(let share):
            let sessions = try await looks.rows(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'siwatch' AND pid <> pg_backend_pid() ORDER BY pid"
            )
            guard !sessions.isEmpty else { return }
            let session: Int = sessions[Int(Double(sessions.count) * share)][0]
            _ = try await looks.rows("SELECT pg_terminate_backend(\(session))")
        case .restart:
            try server.restart()
        case .absence:
            server.takeDown()
            try await untilReady(false)
            try server.bringUp()
        case .cut(let index):
            replicas[index].apartSince = .now
            replicas[index].road.condition = .closed
        case .darkness(let index, _):
            replicas[index].apartSince = .now
            replicas[index].road.condition = .dark
        case .delay(let index, let delay):
            replicas[index].road.condition = .slow(delay)
        case .fullDisk:
            try await fillDisk()
        case .step(let offset):
            try replicas[Self.clocked].clock?.step(to: offset)
            try await untilReady(false, Self.clocked)
        }
    }

    private func buryAfterItsEnd(_ index: Int) async {
        guard let life = replicas[index].life else { return }
        await life.process.exit()
        history.deaths += 1
        if life.hasAskedApple { history.losses += 1 }
        bury(index)
    }

    /// Waits until a replica has met the full disk and is not ready or has found room all the same, or until no work is left that could
    /// meet it.
    private func fillDisk() async throws {
        server.isFull = true
        defer { server.isFull = false }
        func isFull(_ life: Life) async -> Bool {
            guard life.process.exitStatus == nil, let metrics = try? await life.pages.get("metrics") else { return false }
            return metrics.contains("\nsiwatch_store_full 1")
        }
        let end = ContinuousClock.now + .seconds(5)
        while .now < end {
            for (index, life) in replicas.map(\.life).enumerated() {
                guard let life, await isFull(life) else { continue }
                history.fullDisks += 1
                let limit = ContinuousClock.now + Self.longestPretence
                while try await life.pages.get("readyz") == "ok\n", await isFull(life) {
                    guard .now < limit else { throw HarnessError("I10: replica \(index) says that it is ready on a full disk") }
                }
                return
            }
        }
    }

    /// How long a replica may report ready while it can commit nothing: ten seconds between two tries to insert, plus the delay of a busy
    /// machine.
    private static let longestPretence = Duration.seconds(30)

    /// Leaves a replica struck for the given length.
    ///
    /// - Throws: an error if the others do not go on meanwhile, or if the struck replica still reports ready (I10).
    func hold(_ fault: FleetFault, _ length: FleetFault.Length) async throws {
        guard let index = fault.struck, length != .brief else { return }
        let name = replicas[index].name
        if fault.isOnTheRoad { try await untilReady(false, index, within: Self.longestPretence) }
        let others = "SELECT COUNT(*) FROM lane WHERE app <> '' AND owner NOT IN ('', '\(name)') AND until > \(Self.now)"
        try await looks.until(others, is: 1, within: .seconds(30))
        if length == .pastTheClaims {
            let claims = ["notification_queue", "grant_queue", "revocation_queue", "revocation", "credential"].map {
                "(SELECT COUNT(*) FROM \($0) WHERE claimed_by = '\(name)' AND due_at IS NOT NULL)"
            }
            try await looks.until("SELECT " + claims.joined(separator: " + "), is: 0, within: .seconds(600))
        }
        if fault.isOnTheRoad { try await untilReady(false, index, within: .zero) }
    }

    func heal(after fault: FleetFault) async throws {
        if case .darkness(let index, isForGood: true) = fault { replicas[index].road.cut() }
        for index in replicas.indices {
            replicas[index].road.condition = .open
            try replicas[index].clock?.step(to: .zero)
            rejoin(index)
        }
        if server.isAway { try server.restart() }
        // The server may be recovering.
        _ = try await looks.int("SELECT 1")
        for index in replicas.indices {
            if let process = replicas[index].life?.process, let status = process.exitStatus {
                let hasCause = raging.contains(where: \.mayEndReplicas)
                history.ends.append(FleetHistory.End(status: status, lastWords: process.output.last ?? "", hasCause: hasCause))
                await buryAfterItsEnd(index)
            }
            if replicas[index].life == nil { try await start(index) }
        }
        isHealed = true
    }

    private func rejoin(_ index: Int) {
        guard let since = replicas[index].apartSince else { return }
        if since.duration(to: .now) > Self.claim, replicas[index].life?.hasAskedApple ?? false { history.losses += 1 }
        if replicas[index].isFrozen { history.thaws.append(FleetHistory.Thaw(replica: index, at: .now())) }
        replicas[index].life?.process.signal(SIGCONT)
        replicas[index].apartSince = nil
        replicas[index].isFrozen = false
    }
}
