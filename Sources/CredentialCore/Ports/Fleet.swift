// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Several siwatch on one database. Each lane has one owner at a time, by a lease on the database's clock.
package protocol Fleet: Sendable {
    /// Reports that this replica lives, and keeps and takes lanes that it could own, up to its share. Forgets replicas that were not seen
    /// for an hour. If it throws, the replica's lanes end with their lease.
    func renew(_ replica: Replica, lanes: Set<FleetLane>, lease: Duration) async throws -> Tenure
    func release() async throws
    /// The replicas that were seen within an hour, in the order in which they came.
    func replicas() async throws -> [ReplicaStatus]
    /// The living replicas that could own a lane.
    func replicas(for lane: FleetLane) async throws -> [Replica]
    var time: Timestamp { get async throws }
}

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
    /// The ids of its sealing keys, in the order of its key file.
    package var keyIDs: [String]?
    /// The id of the key under which it seals.
    package var sealingKeyID: String?

    package init(host: String, processID: Int32, version: String, clockSkew: Duration = .zero, configuration: String = "") {
        (self.host, self.processID, self.version) = (host, processID, version)
        (self.clockSkew, self.configuration) = (clockSkew, configuration)
    }

    /// This replica, with its keys as they are now.
    package func telling(_ keys: any SharedKeys) -> Replica {
        var replica = self
        (replica.keyIDs, replica.sealingKeyID) = (keys.keyIDs, keys.sealingKeyID)
        return replica
    }
}

/// The sealing keys of this process, as other replicas hear of them.
package protocol SharedKeys: Sendable {
    /// The ids of the keys, in the order of the key file.
    var keyIDs: [String] { get }
    /// The id of the first key that every living replica holds. Without such a key, the first.
    var sealingKeyID: String { get }
    /// Takes the ids of the keys of each other living replica, because each has to open what this process seals.
    func share(with others: [[String]])
}

extension [String] {
    /// Of the ids of a ring's keys: the first that each other living replica holds. Without such a key, the first of all.
    package func first(heldBy others: [[String]]) -> String { first { key in others.allSatisfy { $0.contains(key) } } ?? self[0] }
}

/// A replica's lanes, from the moment of the renewal until the lease ends.
package struct Tenure: Sendable, Equatable {
    /// By lane: how many owners it has had. While the number stays the same, no other replica has owned the lane in between.
    package var epochs: [FleetLane: Int64]
    /// The database's clock when it answered.
    package var time: Timestamp
    /// The other living replicas that came before, in the order in which they came.
    package var elders: [Replica]
    /// The other living replicas that came later.
    package var juniors: [Replica]

    package init(epochs: [FleetLane: Int64], time: Timestamp, elders: [Replica] = [], juniors: [Replica] = []) {
        (self.epochs, self.time, self.elders, self.juniors) = (epochs, time, elders, juniors)
    }

    /// All other living replicas.
    package var others: [Replica] { elders + juniors }
}

/// A replica, as the others see it.
package struct ReplicaStatus: Sendable, Equatable, Codable {
    /// The name on the rows that the replica has claimed.
    package var name: String
    package var replica: Replica
    /// By the database's clock, like `seenAt`.
    package var startedAt: Timestamp
    package var seenAt: Timestamp
    package var apps: [String]
    package var deliveries: [String]
    package var keepsHouse: Bool

    package init(name: String, replica: Replica, startedAt: Timestamp, seenAt: Timestamp, lanes: [FleetLane]) {
        self.name = name
        self.replica = replica
        self.startedAt = startedAt
        self.seenAt = seenAt
        apps = lanes.compactMap(\.app)
        deliveries = lanes.compactMap(\.delivery)
        keepsHouse = lanes.contains(.maintenance)
    }

    /// How long a replica counts as living after it was last seen.
    package static let presence = Duration.seconds(10)

    package func isLiving(at now: Timestamp) -> Bool { now < seenAt.advanced(by: Self.presence) }
}
