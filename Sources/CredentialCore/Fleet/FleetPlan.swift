// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The replicas and the owners of lanes, as one replica sees them before it renews. By these it spreads apps evenly. If several replicas
/// want one lane, the store decides.
package struct FleetPlan: Sendable {
    /// The lanes that each living replica could own, by the replica's name.
    package var replicas: [String: Set<FleetLane>]
    /// The owners of lanes with a lease that has not ended.
    package var owners: [FleetLane: String]

    package init(replicas: [String: Set<FleetLane>], owners: [FleetLane: String]) {
        self.replicas = replicas
        self.owners = owners
    }

    /// The lanes that the replica keeps: all but one app at a time that another replica with at least two apps fewer could own.
    package func kept(by name: String) -> Set<FleetLane> {
        let owned = (replicas[name] ?? []).filter { owners[$0] == name }
        let surplus = owned.sorted().last { lane in
            lane.app != nil && hasRival(of: name, for: lane) { $0 + 2 <= apps(of: name) }
        }
        return owned.subtracting([surplus].compactMap(\.self))
    }

    /// The lanes without an owner, except apps that another replica with fewer apps could own.
    package func taken(by name: String) -> Set<FleetLane> {
        var count = apps(of: name)
        var taken: Set<FleetLane> = []
        for lane in (replicas[name] ?? []).sorted() where owners[lane] == nil {
            if lane.app != nil {
                if hasRival(of: name, for: lane, { $0 < count }) { continue }
                count += 1
            }
            taken.insert(lane)
        }
        return taken
    }

    private func hasRival(of name: String, for lane: FleetLane, _ isWorseOff: (Int) -> Bool) -> Bool {
        replicas.contains { other, lanes in other != name && lanes.contains(lane) && isWorseOff(apps(of: other)) }
    }

    private func apps(of name: String) -> Int { owners.count { $0.key.app != nil && $0.value == name } }
}
