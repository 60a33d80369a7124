// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Logging
import ServiceLifecycle

/// Renews the leases of this replica's lanes, and tells the fleet that the replica lives. It stops after the writer, because it stands
/// before the writer in the service group. So it gives the lanes back when no work is under way.
package struct LaneKeeper: Service {
    private let fleet: any Fleet
    private let replica: Replica
    private let leases: [FleetLane: LaneLease]
    private let clients: [FleetLane: Set<String>]
    private let clock: FleetClock
    private let uptime: @Sendable () -> Duration
    private let breakers: Breakers
    private let keys: any SharedKeys
    private let reader: any CredentialReader
    private let telemetry: Telemetry

    package static let lease = Duration.seconds(3)
    private static let interval = Duration.seconds(1)

    package init(
        _ fleet: any Fleet,
        as replica: Replica,
        leases: [FleetLane: LaneLease],
        clients: [FleetLane: Set<String>],
        clock: FleetClock,
        uptime: @escaping @Sendable () -> Duration,
        breakers: Breakers,
        keys: any SharedKeys,
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
        self.keys = keys
        self.reader = reader
        self.telemetry = telemetry
    }

    /// An older replica runs with other apps, clients, canaries or rules, so each would judge the other's rows differently. Or it seals what
    /// this one cannot open.
    package struct OtherConfiguration: Error {
        package var elder: Replica
        /// The id of the key under which the elder seals. Nil if the rules differ.
        package var missingKey: String?
    }

    package func run() async throws {
        for await _ in Wakeups(every: Self.interval).untilShutdown() {
            guard let other = await renew() else { continue }
            await leave()
            throw other
        }
        // A cancelled run may leave work under way. Its leases end by themselves.
        if !Task.isCancelled { await leave() }
    }

    /// Renews once, or lets this replica's lanes end with their leases. Returns an older replica beside which this one cannot work.
    @discardableResult
    package func renew() async -> OtherConfiguration? {
        let askedAt = uptime()
        do {
            var replica = replica.telling(keys)
            replica.clockSkew = clock.skew
            let tenure = try await fleet.renew(replica, lanes: Set(leases.keys), lease: Self.lease)
            let answeredAt = uptime()
            if let other = replica.firstOther(in: tenure.elders) { return other }
            keys.share(with: tenure.others.compactMap(\.keyIDs))
            clock.observe(tenure.time, askedAt: askedAt, answeredAt: answeredAt)
            func renew(where isMeant: (LaneLease, Int64) -> Bool) {
                for (lane, epoch) in tenure.epochs {
                    guard let lease = leases[lane], isMeant(lease, epoch) else { continue }
                    let isNew = lease.renew(epoch, askedAt: askedAt, answeredAt: answeredAt, for: Self.lease)
                    if isNew { telemetry.log(.laneTaken, ["lane": "\(lane)", "count": "\(epoch)"]) }
                }
            }
            // Another replica may own these lanes by now.
            for (lane, lease) in leases where tenure.epochs[lane] == nil { lease.end() }
            renew { $0.isOurs(since: $1) }
            // Other replicas judge answers and serve operators too. So breakers are loaded before a lane starts, and at each renewal.
            try await breakers.load(from: reader)
            // Apple's latest answers went to other replicas. Older answers no longer prove what is normal.
            for (lane, epoch) in tenure.epochs where leases[lane]?.isOurs(since: epoch) == false {
                breakers.forgetProofs(of: clients[lane] ?? [])
            }
            renew { !$0.isOurs(since: $1) }
            telemetry.storeAnswered(Telemetry.renewals)
        } catch {
            telemetry.renewalFailed(error)
        }
        for (lane, lease) in leases where lease.isLost() { telemetry.laneLost(lane) }
        return nil
    }

    /// Gives every lane back, so that other replicas need not wait for the leases to end.
    package func leave() async {
        for lease in leases.values { lease.end() }
        do {
            try await fleet.release()
        } catch {
            telemetry.renewalFailed(error)
        }
    }
}

extension Replica {
    /// The first of some elders beside which this replica cannot work.
    package func firstOther(in elders: [Replica]) -> LaneKeeper.OtherConfiguration? {
        for elder in elders {
            if elder.configuration != configuration { return LaneKeeper.OtherConfiguration(elder: elder) }
            if let key = elder.sealingKeyID, keyIDs?.contains(key) != true {
                return LaneKeeper.OtherConfiguration(elder: elder, missingKey: key)
            }
        }
        return nil
    }
}
