// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The replicas and the owners of lanes, as one replica sees them before it renews. From these it decides what it keeps and takes, so that
/// apps are spread evenly.
///
/// Several replicas may see the same and want the same lane. The store then decides.
package struct FleetPlan: Sendable {
    /// The lanes that each living replica could own, by the replica's name.
    package var replicas: [String: Set<FleetLane>]
    /// The apps for which Apple refuses a replica, by the replica's name.
    package var refusals: [String: Set<FleetLane>]
    /// The owners of lanes with a lease that has not ended.
    package var owners: [FleetLane: String]

    package init(replicas: [String: Set<FleetLane>], refusals: [String: Set<FleetLane>] = [:], owners: [FleetLane: String]) {
        self.replicas = replicas
        self.refusals = refusals
        self.owners = owners
    }

    /// The lanes that the replica keeps. It lets the lease of an app run out that Apple refuses to it and not to another replica. It lets
    /// the lease of one app at a time run out, if another replica could own that app and owns at least two fewer.
    package func kept(by name: String) -> Set<FleetLane> {
        let owned = (replicas[name] ?? []).filter { owners[$0] == name }
        let useful = owned.filter { !isRefused(name, $0) || !hasRival(of: name, for: $0) }
        let surplus = useful.sorted().last { lane in
            lane.app != nil && hasRival(of: name, for: lane) { $0 + 2 <= apps(of: name) }
        }
        return useful.subtracting([surplus].compactMap(\.self))
    }

    /// The lanes without an owner, except apps that another replica with fewer apps could own, or one that Apple does not refuse.
    package func taken(by name: String) -> Set<FleetLane> {
        var count = apps(of: name)
        var taken: Set<FleetLane> = []
        for lane in (replicas[name] ?? []).sorted() where owners[lane] == nil {
            if lane.app != nil {
                if hasRival(of: name, for: lane, { isRefused(name, lane) || $0 < count }) { continue }
                count += 1
            }
            taken.insert(lane)
        }
        return taken
    }

    private func isRefused(_ name: String, _ lane: FleetLane) -> Bool { refusals[name]?.contains(lane) ?? false }

    /// Whether another replica could own the lane, one that Apple does not refuse.
    ///
    /// - Parameter isWorseOff: judges the number of apps that the other replica owns.
    private func hasRival(of name: String, for lane: FleetLane, _ isWorseOff: (Int) -> Bool = { _ in true }) -> Bool {
        replicas.contains { other, lanes in
            other != name && lanes.contains(lane) && !isRefused(other, lane) && isWorseOff(apps(of: other))
        }
    }

    private func apps(of name: String) -> Int {
        owners.count { $0.key.app != nil && $0.value == name }
    }
}
