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
    private let replica: Replica
    private let leases: [FleetLane: LaneLease]
    private let clients: [FleetLane: Set<String>]
    private let shared: (fleet: any Fleet, clock: FleetClock)?

    /// - Throws: `StoreError`
    init(in store: any CredentialStore, as replica: Replica, _ configuration: Configuration) async throws {
        let start = ContinuousClock.now
        let uptime = { @Sendable in ContinuousClock.now - start }
        self.uptime = uptime
        self.replica = replica
        clients = Dictionary(uniqueKeysWithValues: configuration.apps.map { (.app($0.name), Set($0.clientIDs)) })
        let lanes = configuration.apps.map { FleetLane.app($0.name) } + [.maintenance]
        guard let fleet = store as? any Fleet else {
            clock = .system
            leases = Dictionary(uniqueKeysWithValues: lanes.map { ($0, .endless) })
            shared = nil
            return
        }
        let clock = FleetClock(local: .system, uptime: uptime)
        try await clock.look(at: fleet)
        leases = Dictionary(uniqueKeysWithValues: lanes.map { ($0, LaneLease(uptime: uptime)) })
        self.clock = clock.wallClock
        shared = (fleet, clock)
    }

    /// The clock that all go by who work on a store.
    static func clock(of store: any CredentialStore) async throws -> WallClock {
        guard let fleet = store as? any Fleet else { return .system }
        let start = ContinuousClock.now
        let clock = FleetClock(local: .system) { ContinuousClock.now - start }
        try await clock.look(at: fleet)
        return clock.wallClock
    }

    var isShared: Bool { shared != nil }

    func lease(of lane: FleetLane) -> LaneLease {
        guard let lease = leases[lane] else { preconditionFailure("no lane \(lane)") }
        return lease
    }

    /// Of every lane whether it is this process's.
    var ownership: [FleetLane: Bool] { leases.mapValues(\.holds) }

    /// Whether this process does what is to be done once for all.
    var keepsHouse: Bool { lease(of: .maintenance).holds }

    /// Whether Apple may be asked for an app, at the moment of asking; nil where nobody else would.
    func mayAsk(for app: String) -> (@Sendable () -> Bool)? {
        guard isShared, let lease = leases[.app(app)] else { return nil }
        return { lease.holds }
    }

    /// Whether others can be known of: whoever was cut off or frozen for a lease may find that they go by another configuration.
    var hearsOthers: @Sendable () -> Bool {
        { [clock = shared?.clock] in clock?.hearsOthers(within: LaneKeeper.lease) ?? true }
    }

    /// Nil where nobody else is.
    func keeper(_ breakers: Breakers, _ reader: any CredentialReader, _ telemetry: Telemetry) -> LaneKeeper? {
        shared.map { fleet, clock in
            LaneKeeper(
                fleet,
                as: replica,
                leases: leases,
                clients: clients,
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

extension Replica {
    /// How long one may be away that comes back to its place.
    private static let absence = Duration.seconds(30)

    /// This process, with the names of its sealing keys: what one seals the others have to open.
    init(_ configuration: Configuration, keyIDs: [String]) {
        self.init(
            host: ProcessInfo.processInfo.hostName,
            processID: ProcessInfo.processInfo.processIdentifier,
            version: Version.current,
            configuration: configuration.digest(with: keyIDs)
        )
    }

    /// Refuses to go on beside others that would judge the same rows differently, before anything of ours is written. Of two who come at
    /// once each is there before it looks, and the younger goes. Whoever is not refused is one of the fleet from here on.
    ///
    /// - Throws: `CommandFailure`, `StoreError`.
    func join(_ store: any CredentialStore) async throws {
        guard let fleet = store as? any Fleet else { return }
        // Those that lost their server for a while are about to come back, and would take whoever came meanwhile for one that was there
        // before them. One that was stopped in order is not among them.
        let recent = try await fleet.time.advanced(by: .zero - Self.absence)
        let others = try await fleet.replicas().filter { $0.replica.configuration != configuration && $0.seenAt > recent }
        if let other = others.first { throw CommandFailure(LaneKeeper.OtherConfiguration(elder: other.replica)) }
        _ = try await fleet.renew(self, lanes: [], lease: LaneKeeper.lease)
        let elders = try await fleet.renew(self, lanes: [], lease: LaneKeeper.lease).elders
        guard let elder = elders.first(where: { $0.configuration != configuration }) else { return }
        try await fleet.release()
        throw CommandFailure(LaneKeeper.OtherConfiguration(elder: elder))
    }
}

extension CommandFailure {
    init(_ other: LaneKeeper.OtherConfiguration) {
        self = .unavailable(
            """
            the siwatch \(other.elder.processID) on \(other.elder.host.printable) is at work on the same database with other apps, clients, \
            canaries, rules or sealing keys; stop all, then start all with the same
            """
        )
    }
}

extension ReplicaStatus {
    /// Whether it was seen lately.
    func isLiving(at now: Timestamp) -> Bool { now < seenAt.advanced(by: .seconds(10)) }
}

extension Fleet {
    /// The replicas that were seen lately.
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

extension Configuration {
    /// Tells configurations apart by which the same rows would be judged differently. FNV-1a, of 64 bits.
    fileprivate func digest(with keyIDs: [String]) -> String {
        let apps = apps.sorted { $0.name < $1.name }.map { app in
            [app.name] + app.clientIDs.sorted() + ["canaries"] + app.canaries.sorted() + (app.revocations ? [] : ["no revocations"])
        }
        let rules = "\(breaker) \(refresh.interval) \(refresh.timeout) \(queues.clockSkew) \(apple.issuers.sorted())"
        let hash = "\(apps) \(rules) \(keyIDs.sorted())".utf8.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return String(hash, radix: 16)
    }
}
