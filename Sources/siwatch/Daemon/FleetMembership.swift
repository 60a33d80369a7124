// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation

/// This process's place among those that share a database. With the lock on a file it is alone, and owns every lane.
struct FleetMembership: Sendable {
    /// The database's clock, if several processes must agree on the time.
    let clock: WallClock
    /// By a clock that never steps.
    let uptime: @Sendable () -> Duration
    private let replica: Replica
    private let leases: [FleetLane: LaneLease]
    private let clients: [FleetLane: Set<String>]
    private let shared: (fleet: any Fleet, clock: FleetClock)?

    /// - Parameter delivers: whether this process sends webhooks.
    init(in store: any CredentialStore, as replica: Replica, _ configuration: Configuration, delivers: Bool) async throws {
        let start = ContinuousClock.now
        let uptime = { @Sendable in ContinuousClock.now - start }
        self.uptime = uptime
        var replica = replica
        if delivers { replica.deliveries = configuration.deliveryDigests }
        self.replica = replica
        clients = Dictionary(uniqueKeysWithValues: configuration.apps.map { (.app($0.name), Set($0.clientIDs)) })
        let shared = try await Self.shared(in: store, uptime)
        self.shared = shared
        clock = shared?.clock.wallClock ?? Invocation.current.clock
        let delivering = delivers ? configuration.deliveries.map { FleetLane.delivery($0.name) } : []
        let lanes = configuration.apps.map { FleetLane.app($0.name) } + delivering + [.maintenance]
        leases = Dictionary(uniqueKeysWithValues: lanes.map { ($0, shared == nil ? .endless : LaneLease(uptime: uptime)) })
    }

    private static func shared(
        in store: any CredentialStore,
        _ uptime: @escaping @Sendable () -> Duration
    ) async throws -> (fleet: any Fleet, clock: FleetClock)? {
        guard let fleet = store.fleet else { return nil }
        let clock = FleetClock(local: Invocation.current.clock, uptime: uptime)
        try await clock.look(at: fleet)
        return (fleet, clock)
    }

    /// The clock for work on a store: the database's if replicas share it, else the machine's.
    static func clock(of store: any CredentialStore) async throws -> WallClock {
        let start = ContinuousClock.now
        return try await shared(in: store) { ContinuousClock.now - start }?.clock.wallClock ?? Invocation.current.clock
    }

    var isShared: Bool { shared != nil }

    func lease(of lane: FleetLane) -> LaneLease {
        guard let lease = leases[lane] else { preconditionFailure("no lane \(lane)") }
        return lease
    }

    var ownership: [FleetLane: Bool] { leases.mapValues(\.holds) }

    var keepsHouse: Bool { lease(of: .maintenance).holds }

    func delivers(_ name: String) -> Bool { leases[.delivery(name)]?.holds ?? false }

    /// Whether this process may ask Apple for an app, at the moment of asking. Nil if no other replica can be there.
    func mayAsk(for app: String) -> (@Sendable () -> Bool)? {
        guard isShared, let lease = leases[.app(app)] else { return nil }
        return { lease.holds }
    }

    /// Whether this process has lately heard of the other replicas. After a break of a lease or more, the others may have another
    /// configuration.
    var hearsOthers: @Sendable () -> Bool {
        { [clock = shared?.clock] in clock?.hearsOthers(within: LaneKeeper.lease) ?? true }
    }

    func keeper(_ breakers: Breakers, _ keys: any SharedKeys, _ reader: any CredentialReader, _ telemetry: Telemetry) -> LaneKeeper? {
        shared.map { fleet, clock in
            LaneKeeper(
                fleet,
                as: replica,
                leases: leases,
                clients: clients,
                clock: clock,
                uptime: uptime,
                breakers: breakers,
                keys: keys,
                reader: reader,
                telemetry: telemetry
            )
        }
    }

    /// Why nobody should rely on this process. Nil if there is no reason.
    func trouble(clockSkew: Duration) -> String? {
        guard let clock = shared?.clock, clock.isOff(by: clockSkew) else { return nil }
        return Self.trouble(skew: clock.skew)
    }

    /// - Parameter skew: how far this host's clock is ahead.
    static func trouble(skew: Duration) -> String {
        "this host's clock is \(max(skew, .zero - skew).text) \(skew < .zero ? "behind" : "ahead of") the database's"
    }
}

extension Replica {
    /// How long a replica may be away and still come back to its place.
    private static let absence = Duration.seconds(30)

    init(_ configuration: Configuration) {
        self.init(
            host: ProcessInfo.processInfo.hostName,
            processID: ProcessInfo.processInfo.processIdentifier,
            version: Version.current,
            configuration: FleetAgreement(configuration).digest
        )
    }

    /// Joins the fleet, or refuses if replicas there would judge the same rows differently or seal what this one cannot open, before anything
    /// of ours is written. Of two that come at once, each joins before it looks, and the younger one leaves.
    func join(_ store: any CredentialStore, sharing keys: any SharedKeys) async throws {
        guard let fleet = store.fleet else { return }
        // A replica that lost its server for a while is about to come back, and would take a newcomer for its elder. A replica that was
        // stopped in order is not in this list.
        let recent = try await fleet.time.advanced(by: .zero - Self.absence)
        let others = try await fleet.replicas().filter { $0.seenAt > recent }.map(\.replica)
        // Before the others hear of a key of ours, and refuse to start without it.
        keys.share(with: others.compactMap(\.keyIDs))
        if let other = telling(keys).firstOther(in: others) { throw CommandFailure(other) }
        _ = try await fleet.renew(telling(keys), lanes: [], lease: LaneKeeper.lease)
        let tenure = try await fleet.renew(telling(keys), lanes: [], lease: LaneKeeper.lease)
        keys.share(with: tenure.others.compactMap(\.keyIDs))
        guard let other = telling(keys).firstOther(in: tenure.elders) else { return }
        try await fleet.release()
        throw CommandFailure(other)
    }
}

extension CommandFailure {
    init(_ other: LaneKeeper.OtherConfiguration) {
        let elder = "the siwatch \(other.elder.processID) on \(other.elder.host.printable)"
        if let key = other.missingKey {
            self = .unavailable("\(elder) seals under the key \(key.printable), which encryption.key_file lacks here; copy its key file")
            return
        }
        self = .unavailable(
            """
            \(elder) is at work on the same database with other apps, clients, canaries or rules; stop all, then start all with the same
            """
        )
    }
}

extension Fleet {
    var living: [ReplicaStatus] {
        get async throws {
            let now = try await time
            return try await replicas().filter { $0.isLiving(at: now) }
        }
    }

    var isAtWork: Bool {
        get async throws { try await !living.isEmpty }
    }
}
