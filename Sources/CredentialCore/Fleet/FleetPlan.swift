// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Who is there and who owns what, as a replica sees it before it renews; and what it keeps and takes, so that apps are spread evenly.
///
/// Several may see the same and want the same: whose it is, the store decides.
package struct FleetPlan: Sendable {
    /// The lanes that each living replica could own, by its name.
    package var replicas: [String: Set<FleetLane>]
    /// Of the lanes whose lease has not ended.
    package var owners: [FleetLane: String]

    package init(replicas: [String: Set<FleetLane>], owners: [FleetLane: String]) {
        self.replicas = replicas
        self.owners = owners
    }

    /// All that it owns, save for one app at a time that somebody else would have who has two fewer: that lease runs out.
    package func kept(by name: String) -> Set<FleetLane> {
        let owned = (replicas[name] ?? []).filter { owners[$0] == name }
        let surplus = owned.sorted().last { lane in
            lane != .maintenance && hasRival(of: name, for: lane) { $0 + 2 <= apps(of: name) }
        }
        return owned.subtracting([surplus].compactMap(\.self))
    }

    /// What nobody owns, and nobody else would have who has fewer apps.
    package func taken(by name: String) -> Set<FleetLane> {
        var count = apps(of: name)
        var taken: Set<FleetLane> = []
        for lane in (replicas[name] ?? []).sorted() where owners[lane] == nil {
            if lane != .maintenance {
                if hasRival(of: name, for: lane, { $0 < count }) { continue }
                count += 1
            }
            taken.insert(lane)
        }
        return taken
    }

    /// - Parameter isWorseOff: by how many apps the other owns.
    private func hasRival(of name: String, for lane: FleetLane, _ isWorseOff: (Int) -> Bool) -> Bool {
        replicas.contains { other, lanes in other != name && lanes.contains(lane) && isWorseOff(apps(of: other)) }
    }

    private func apps(of name: String) -> Int {
        owners.count { $0.key != .maintenance && $0.value == name }
    }
}
