// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Several siwatch on one database. Each lane has one owner at a time, by a lease on the database's clock.
package protocol Fleet: Sendable {
    /// Reports that this replica lives, keeps the lanes that it owns, and takes lanes without an owner, up to its share. Forgets replicas
    /// that were not seen for an hour.
    ///
    /// - Parameter lanes: the lanes that this replica could own.
    /// - Throws: `StoreError`. The replica's lanes then end with their lease.
    func renew(_ replica: Replica, lanes: Set<FleetLane>, lease: Duration) async throws -> Tenure

    /// Gives every lane back and leaves the fleet.
    func release() async throws

    /// The replicas that were seen within an hour, in the order in which they came.
    func replicas() async throws -> [ReplicaStatus]

    /// The living replicas that could own a lane.
    func replicas(for lane: FleetLane) async throws -> [Replica]

    /// The database's clock.
    var time: Timestamp { get async throws }
}

/// One siwatch of several.
package struct Replica: Sendable, Equatable, Codable {
    package var host: String
    package var processID: Int32
    package var version: String
    /// How far the clock of its machine is ahead of the database's clock.
    package var clockSkew: Duration
    /// Differs between replicas that would judge the same rows differently.
    package var configuration: String
    /// By the name of a delivery, what differs between replicas that leave out other changes of it. Nil if it sends none.
    package var deliveries: [String: String]?

    package init(host: String, processID: Int32, version: String, clockSkew: Duration = .zero, configuration: String = "") {
        self.host = host
        self.processID = processID
        self.version = version
        self.clockSkew = clockSkew
        self.configuration = configuration
    }
}

extension ReplicaStatus {
    /// How long a replica counts as living after it was last seen.
    package static let presence = Duration.seconds(10)

    /// Whether it was seen lately.
    package func isLiving(at now: Timestamp) -> Bool { now < seenAt.advanced(by: Self.presence) }
}

/// A replica's lanes, from the moment of the renewal until the lease ends.
package struct Tenure: Sendable, Equatable {
    /// By lane: how many owners it has had. While the number stays the same, no other replica has owned the lane in between.
    package var epochs: [FleetLane: Int64]
    /// The database's clock when it answered.
    package var time: Timestamp
    /// The other living replicas that came before, in the order in which they came.
    package var elders: [Replica]

    package init(epochs: [FleetLane: Int64], time: Timestamp, elders: [Replica] = []) {
        self.epochs = epochs
        self.time = time
        self.elders = elders
    }
}

/// A replica, as the others see it.
package struct ReplicaStatus: Sendable, Equatable, Codable {
    /// The name on the rows that the replica has claimed.
    package var name: String
    package var replica: Replica
    /// By the database's clock, like `seenAt`.
    package var startedAt: Timestamp
    package var seenAt: Timestamp
    /// The apps for which the replica asks Apple.
    package var apps: [String]
    /// The deliveries whose webhooks the replica sends.
    package var deliveries: [String]
    package var keepsHouse: Bool

    /// - Parameter lanes: those that the replica owns.
    package init(name: String, replica: Replica, startedAt: Timestamp, seenAt: Timestamp, lanes: [FleetLane]) {
        self.name = name
        self.replica = replica
        self.startedAt = startedAt
        self.seenAt = seenAt
        apps = lanes.compactMap(\.app)
        deliveries = lanes.compactMap(\.delivery)
        keepsHouse = lanes.contains(.maintenance)
    }
}
