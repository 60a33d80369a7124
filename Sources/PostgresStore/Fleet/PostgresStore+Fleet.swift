// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables

extension PostgresStore: Fleet {
    /// How long the fleet remembers a replica that it does not see any more.
    private static let memory = Duration.hours(1)

    /// Renews a replica. After a silence of a whole lease it joins anew, because replicas that met meanwhile may have another
    /// configuration. Uses two flights, one that looks and one that writes, so that a replica that stalls in between holds no lock.
    package func renew(_ replica: Replica, lanes: Set<FleetLane>, lease: Duration) async throws -> Tenure {
        let description = (replica: try JSONText.encode(replica), lanes: try JSONText.encode(lanes.map(\.text).sorted()))
        return try await renewals.run { [owner] connection in
            let (plan, elders, juniors) = try Self.plan(renewing: owner, lanes, lease: lease, on: connection)
            let (kept, taken) = (plan.kept(by: owner), plan.taken(by: owner))
            try connection.send("BEGIN ISOLATION LEVEL READ COMMITTED")
            try connection.send(
                """
                INSERT INTO replica AS r (owner, started_at, seen_at, replica, lanes)
                 VALUES (\(owner), \(sql: Schema.now), \(sql: Schema.now), \(description.replica), \(description.lanes))
                    ON CONFLICT (owner) DO UPDATE
                   SET started_at = CASE WHEN r.seen_at > \(sql: Schema.now) - \(lease) THEN r.started_at ELSE excluded.started_at END,
                       seen_at = excluded.seen_at, replica = excluded.replica, lanes = excluded.lanes
                """
            )
            try connection.send("INSERT INTO lane (app) SELECT unnest(\(array: lanes.sorted().map(\.text))) ON CONFLICT DO NOTHING")
            try connection.send(
                "UPDATE lane SET until = \(sql: Schema.now) + \(lease) WHERE owner = \(owner) AND app = ANY(\(array: kept.map(\.text)))"
            )
            try connection.send(
                """
                UPDATE lane SET owner = \(owner), epoch = lane.epoch + 1, until = \(sql: Schema.now) + \(lease)
                  FROM (SELECT app FROM lane WHERE app = ANY(\(array: taken.map(\.text))) AND until <= \(sql: Schema.now)
                   ORDER BY app FOR UPDATE SKIP LOCKED) free
                 WHERE lane.app = free.app
                """
            )
            try connection.send("DELETE FROM replica WHERE seen_at < \(sql: Schema.now) - \(Self.memory)")
            try Self.sendBackFromTheFuture(lease: lease, on: connection)
            let owned = try connection.send(
                "SELECT app, epoch FROM lane WHERE owner = \(owner) AND app = ANY(\(array: kept.union(taken).map(\.text)))"
            )
            let time = try connection.send("SELECT \(sql: Schema.now)")
            try connection.sendCommit()
            let epochs = try connection.rows(of: owned).map { (FleetLane($0.text(at: 0) ?? ""), $0.integer(at: 1)) }
            let now: Timestamp = try connection.rows(of: time)[0][0]
            return Tenure(epochs: Dictionary(uniqueKeysWithValues: epochs), time: now, elders: elders, juniors: juniors)
        }
    }

    /// Shortens promises that the server's clock made before it was set back. Otherwise dead replicas would own their lanes, and count,
    /// until then.
    private static func sendBackFromTheFuture(lease: Duration, on connection: Connection) throws {
        try connection.send(
            """
            UPDATE lane SET until = \(sql: Schema.now) + \(lease)
              FROM (SELECT app FROM lane WHERE until > \(sql: Schema.now) + \(lease) ORDER BY app FOR UPDATE SKIP LOCKED) late
             WHERE lane.app = late.app
            """
        )
        try connection.send(
            """
            UPDATE replica SET seen_at = \(sql: Schema.now)
              FROM (SELECT owner FROM replica WHERE seen_at > \(sql: Schema.now) ORDER BY owner FOR UPDATE SKIP LOCKED) late
             WHERE replica.owner = late.owner
            """
        )
    }

    private static func plan(renewing owner: String, _ lanes: Set<FleetLane>, lease: Duration, on connection: Connection) throws
        -> (FleetPlan, elders: [Replica], juniors: [Replica])
    {
        let living = try connection.send(
            "SELECT owner, lanes, replica FROM replica WHERE seen_at > \(sql: Schema.now) - \(lease) ORDER BY started_at, owner"
        )
        let owned = try connection.send("SELECT app, owner FROM lane WHERE until > \(sql: Schema.now)")
        var plan = FleetPlan(replicas: [:], owners: [:])
        var (elders, juniors): ([Replica], [Replica]) = ([], [])
        var isBefore = true
        try connection.rows(of: living).forEach { row in
            if row.text(at: 0) == owner {
                isBefore = false
            } else if let other = JSONText.decode(row.text(at: 2) ?? "", as: Replica.self) {
                if isBefore { elders.append(other) } else { juniors.append(other) }
            }
            let lanes = JSONText.decode(row.text(at: 1) ?? "", as: [String].self) ?? []
            plan.replicas[row.text(at: 0) ?? ""] = Set(lanes.map { FleetLane($0) })
        }
        plan.replicas[owner] = lanes
        try connection.rows(of: owned).forEach { plan.owners[FleetLane($0.text(at: 0) ?? "")] = $0.text(at: 1) }
        return (plan, elders, juniors)
    }

    package func release() async throws {
        try await renewals.transaction { [owner] connection in
            try connection.send("UPDATE lane SET owner = '', until = 0 WHERE owner = \(owner)")
            try connection.send("DELETE FROM replica WHERE owner = \(owner)")
        }
    }

    package func replicas() async throws -> [ReplicaStatus] {
        try await reader.run { connection in
            let replicas = try connection.send("SELECT owner, replica, started_at, seen_at FROM replica ORDER BY started_at, owner")
            let lanes = try connection.send("SELECT app, owner FROM lane WHERE until > \(sql: Schema.now) ORDER BY app")
            let owned = Dictionary(grouping: try connection.rows(of: lanes)) { $0.text(at: 1) ?? "" }
            return try connection.rows(of: replicas).compactMap { row in
                guard let name = row.text(at: 0), let replica = JSONText.decode(row.text(at: 1) ?? "", as: Replica.self) else { return nil }
                let lanes = owned[name, default: []].map { FleetLane($0.text(at: 0) ?? "") }
                return ReplicaStatus(name: name, replica: replica, startedAt: row[2], seenAt: row[3], lanes: lanes)
            }
        }
    }

    package func replicas(for lane: FleetLane) async throws -> [Replica] {
        try await reader.run { connection in
            try connection.fetchAll("SELECT replica, lanes FROM \(Schema.livingReplicas)").compactMap {
                let lanes = JSONText.decode($0.text(at: 1) ?? "", as: [String].self) ?? []
                return lanes.contains(lane.text) ? JSONText.decode($0.text(at: 0) ?? "", as: Replica.self) : nil
            }
        }
    }

    package var time: Timestamp { get async throws { try await renewals.run { try $0.time() } } }
}
