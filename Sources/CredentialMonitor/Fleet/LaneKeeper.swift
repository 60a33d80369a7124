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
    /// Of each app.
    private let clients: [FleetLane: Set<String>]
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
    ///   - clients: about whose tokens Apple is asked in a lane.
    ///   - uptime: what a clock that never steps shows: that of the leases and of `clock`.
    package init(
        _ fleet: any Fleet,
        as replica: Replica,
        leases: [FleetLane: LaneLease],
        clients: [FleetLane: Set<String>],
        clock: FleetClock,
        uptime: @escaping @Sendable () -> Duration,
        breakers: Breakers,
        reader: any CredentialReader,
        telemetry: Telemetry
    ) {
        self.fleet = fleet
        self.replica = replica
        self.leases = leases
        self.clients = clients
        self.clock = clock
        self.uptime = uptime
        self.breakers = breakers
        self.reader = reader
        self.telemetry = telemetry
    }

    /// One that came before is at work with other apps, clients, canaries or rules: each would judge rows of the other differently.
    package struct OtherConfiguration: Error {
        package var elder: Replica

        package init(elder: Replica) {
            self.elder = elder
        }
    }

    /// - Throws: `OtherConfiguration`
    package func run() async throws {
        for await _ in Wakeups(every: Self.interval).untilShutdown() {
            guard let elder = await renew() else { continue }
            await leave()
            throw OtherConfiguration(elder: elder)
        }
        // Cut short, something may be under way: the leases end by themselves.
        if !Task.isCancelled { await leave() }
    }

    /// Renews once. Where that fails, what this replica owns ends with its lease.
    ///
    /// - Returns: one that came before and has another configuration.
    @discardableResult
    package func renew() async -> Replica? {
        let askedAt = uptime()
        do {
            var replica = replica
            replica.clockSkew = clock.skew
            let tenure = try await fleet.renew(replica, lanes: Set(leases.keys), lease: Self.lease)
            let answeredAt = uptime()
            if let elder = tenure.elders.first(where: { $0.configuration != replica.configuration }) { return elder }
            clock.observe(tenure.time, askedAt: askedAt, answeredAt: answeredAt)
            func renew(where isMeant: (LaneLease, Int64) -> Bool) {
                for (lane, epoch) in tenure.epochs {
                    guard let lease = leases[lane], isMeant(lease, epoch) else { continue }
                    let isNew = lease.renew(epoch, askedAt: askedAt, answeredAt: answeredAt, for: Self.lease)
                    if isNew { telemetry.laneTaken(lane, epoch: epoch) }
                }
            }
            // What somebody else may own by now ends, however long it was ours to be.
            for (lane, lease) in leases where tenure.epochs[lane] == nil { lease.end() }
            renew { $0.isOurs(since: $1) }
            // What others have judged and what operators have asked of others: before a lane is at work, and as long as it is.
            try await breakers.load(from: reader)
            // What Apple said meanwhile was said to others: answers from before prove nothing of what is normal now.
            for (lane, epoch) in tenure.epochs where leases[lane]?.isOurs(since: epoch) == false {
                breakers.forgetProofs(of: clients[lane] ?? [])
            }
            renew { !$0.isOurs(since: $1) }
        } catch {
            telemetry.renewalFailed(error)
        }
        for (lane, lease) in leases where lease.isLost() { telemetry.laneLost(lane) }
        return nil
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
