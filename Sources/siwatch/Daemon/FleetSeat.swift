// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation

/// This process's place among those that share a database. Where it holds the lock on a file it is alone, and every lane is its own.
struct FleetSeat: Sendable {
    /// The database's, where several have to agree on the time.
    let clock: WallClock
    /// What a clock that never steps shows.
    let uptime: @Sendable () -> Duration
    private let leases: [FleetLane: LaneLease]
    private let shared: (fleet: any Fleet, clock: FleetClock)?

    init(in store: any CredentialStore, apps: [String]) async throws {
        let start = ContinuousClock.now
        let uptime = { @Sendable in ContinuousClock.now - start }
        self.uptime = uptime
        guard let fleet = store as? any Fleet else {
            (clock, leases, shared) = (.system, [:], nil)
            return
        }
        let clock = FleetClock(local: .system, uptime: uptime)
        try await clock.look(at: fleet)
        let lanes = apps.map(FleetLane.app) + [.maintenance]
        leases = Dictionary(uniqueKeysWithValues: lanes.map { ($0, LaneLease(uptime: uptime)) })
        self.clock = clock.wallClock
        shared = (fleet, clock)
    }

    var isShared: Bool { shared != nil }

    func lease(of lane: FleetLane) -> LaneLease { leases[lane] ?? .endless }

    /// Whether Apple may be asked for an app, at the moment of asking; nil where nobody else would.
    func mayAsk(for app: String) -> (@Sendable () -> Bool)? {
        guard let lease = leases[.app(app)] else { return nil }
        return { lease.holds }
    }

    /// Nil where nobody else is.
    func keeper(_ breakers: Breakers, _ reader: any CredentialReader, _ telemetry: Telemetry) -> LaneKeeper? {
        shared.map { fleet, clock in
            LaneKeeper(
                fleet,
                as: Replica(
                    host: ProcessInfo.processInfo.hostName,
                    processID: ProcessInfo.processInfo.processIdentifier,
                    version: Version.current
                ),
                leases: leases,
                clock: clock,
                uptime: uptime,
                breakers: breakers,
                reader: reader,
                telemetry: telemetry
            )
        }
    }

    /// Why this process is not to be relied on; nil where it is.
    func trouble(clockSkew: Duration) -> String? {
        guard let clock = shared?.clock, clock.isOff(by: clockSkew) else { return nil }
        return "this host's clock and the database's are \(clock.skew.text) apart"
    }
}

extension Fleet {
    /// Whether a replica was seen lately.
    var isAtWork: Bool {
        get async throws {
            let now = try await time
            return try await replicas().contains { now < $0.seenAt.advanced(by: .seconds(10)) }
        }
    }
}
