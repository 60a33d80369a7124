// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import ServiceLifecycle

/// Keeps what this replica of a fleet owns, and says that it lives. It stands before the writer in the service group, so that it gives the
/// lanes back when nothing is under way any more.
package struct LaneKeeper: Service {
    private let fleet: any Fleet
    private let replica: Replica
    private let leases: [FleetLane: LaneLease]
    private let clock: FleetClock
    private let uptime: @Sendable () -> Duration
    private let breakers: Breakers
    private let reader: any CredentialReader
    private let telemetry: Telemetry

    /// How long a lane stays with a replica that is not heard of any more.
    package static let lease = Duration.seconds(3)
    private static let interval = Duration.seconds(1)

    /// - Parameters:
    ///   - leases: of the lanes that this replica could own.
    ///   - uptime: what a clock that never steps shows: that of the leases and of `clock`.
    package init(
        _ fleet: any Fleet,
        as replica: Replica,
        leases: [FleetLane: LaneLease],
        clock: FleetClock,
        uptime: @escaping @Sendable () -> Duration,
        breakers: Breakers,
        reader: any CredentialReader,
        telemetry: Telemetry
    ) {
        self.fleet = fleet
        self.replica = replica
        self.leases = leases
        self.clock = clock
        self.uptime = uptime
        self.breakers = breakers
        self.reader = reader
        self.telemetry = telemetry
    }

    package func run() async throws {
        for await _ in Wakeups(every: Self.interval).untilShutdown() { await renew() }
        // Cut short, something may be under way: the leases end by themselves.
        if !Task.isCancelled { await leave() }
    }

    /// Renews once. Where that fails, what this replica owns ends with its lease.
    package func renew() async {
        let askedAt = uptime()
        do {
            var replica = replica
            replica.clockSkew = clock.skew
            let tenure = try await fleet.renew(replica, lanes: Set(leases.keys), lease: Self.lease)
            let answeredAt = uptime()
            clock.observe(tenure.time, askedAt: askedAt, answeredAt: answeredAt)
            func renew(where isMeant: (LaneLease, Int64) -> Bool) {
                for (lane, epoch) in tenure.epochs {
                    guard let lease = leases[lane], isMeant(lease, epoch) else { continue }
                    let isNew = lease.renew(epoch, askedAt: askedAt, answeredAt: answeredAt, for: Self.lease)
                    if isNew { telemetry.laneTaken(lane, epoch: epoch) }
                }
            }
            renew { $0.isOurs(since: $1) }
            // What others have judged and what operators have asked of others: before a lane is at work, and as long as it is.
            try await breakers.load(from: reader)
            renew { !$0.isOurs(since: $1) }
        } catch {
            telemetry.renewalFailed(error)
        }
        for (lane, lease) in leases where lease.isLost() { telemetry.laneLost(lane) }
    }

    /// Gives every lane back, so that others need not wait for the end of a lease.
    package func leave() async {
        for lease in leases.values { lease.end() }
        do {
            try await fleet.release()
        } catch {
            telemetry.renewalFailed(error)
        }
    }
}
