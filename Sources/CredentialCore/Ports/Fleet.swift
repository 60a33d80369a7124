// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Several siwatch on one database. Each lane has one owner at a time, by a lease on the database's clock.
package protocol Fleet: Sendable {
    /// Says that this replica lives, keeps the lanes that it owns, and takes those that nobody does, up to its share. Whoever was not seen
    /// for an hour is forgotten.
    ///
    /// - Parameter lanes: those that it could own.
    /// - Throws: `StoreError`; what it owns then ends with its lease.
    func renew(_ replica: Replica, lanes: Set<FleetLane>, lease: Duration) async throws -> Tenure

    /// Gives every lane back, and leaves.
    func release() async throws

    /// Those that were seen within an hour, in the order in which they came.
    func replicas() async throws -> [ReplicaStatus]

    /// The database's clock.
    var time: Timestamp { get async throws }
}

/// One siwatch of several.
package struct Replica: Sendable, Equatable, Codable {
    package var host: String
    package var processID: Int32
    package var version: String
    /// By how much its machine's clock is ahead of the database's.
    package var clockSkew: Duration
    /// Another where it would judge the same rows differently.
    package var configuration: String

    package init(host: String, processID: Int32, version: String, clockSkew: Duration = .zero, configuration: String = "") {
        self.host = host
        self.processID = processID
        self.version = version
        self.clockSkew = clockSkew
        self.configuration = configuration
    }
}

extension ReplicaStatus {
    /// How long a replica counts as living that is not seen any more.
    package static let presence = Duration.seconds(10)

    /// Whether it was seen lately.
    package func isLiving(at now: Timestamp) -> Bool { now < seenAt.advanced(by: Self.presence) }
}

/// What a replica owns from the moment at which it asked, for as long as the lease is.
package struct Tenure: Sendable, Equatable {
    /// By lane: how many owners it has had. As long as it is the same, nobody else owned it in between.
    package var epochs: [FleetLane: Int64]
    /// The database's clock when it answered.
    package var time: Timestamp
    /// The others that live and came before, in the order in which they came.
    package var elders: [Replica]

    package init(epochs: [FleetLane: Int64], time: Timestamp, elders: [Replica] = []) {
        self.epochs = epochs
        self.time = time
        self.elders = elders
    }
}

/// A replica as others see it.
package struct ReplicaStatus: Sendable, Equatable, Codable {
    /// As it stands on the rows that it has claimed.
    package var name: String
    package var replica: Replica
    /// By the database's clock, as `seenAt`.
    package var startedAt: Timestamp
    package var seenAt: Timestamp
    /// For which it asks Apple.
    package var apps: [String]
    package var keepsHouse: Bool

    package init(name: String, replica: Replica, startedAt: Timestamp, seenAt: Timestamp, apps: [String], keepsHouse: Bool) {
        self.name = name
        self.replica = replica
        self.startedAt = startedAt
        self.seenAt = seenAt
        self.apps = apps
        self.keepsHouse = keepsHouse
    }
}
