// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

struct FleetPlanTests {
    private let lanes = (1...7).map { FleetLane.app("app-\($0)") } + [.maintenance]

    @Test func aloneItTakesAll() {
        let plan = FleetPlan(replicas: ["a": Set(lanes)], owners: [:])
        #expect(plan.taken(by: "a") == Set(lanes))
        #expect(plan.kept(by: "a").isEmpty)
    }

    @Test func whoHasTwoMoreGivesOneUp() {
        let replicas = ["a": Set(lanes), "b": Set(lanes)]
        var plan = FleetPlan(replicas: replicas, owners: [lanes[0]: "a", lanes[1]: "a", .maintenance: "a"])
        #expect(plan.kept(by: "a") == [lanes[0], .maintenance])
        plan.owners[lanes[2]] = "b"
        #expect(plan.kept(by: "a") == [lanes[0], lanes[1], .maintenance])
    }

    @Test func whatNobodyElseCouldOwnIsKept() {
        let plan = FleetPlan(replicas: ["a": Set(lanes), "b": [lanes[7], lanes[0]]], owners: [lanes[1]: "a", lanes[2]: "a"])
        #expect(plan.kept(by: "a") == [lanes[1], lanes[2]])
        #expect(plan.taken(by: "a") == Set(lanes[3...]))
    }

    /// Replicas come and go. Each renews once in a round, and a lease takes three rounds. Then every lane that a replica could own has an
    /// owner, and the loads of two replicas differ by one lane at most.
    @Test(arguments: 0..<50) func itComesToRest(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let names = (0..<Int.random(in: 1...5, using: &generator)).map { "\($0)" }
        var ends: [FleetLane: (owner: String, round: Int)] = [:]
        for lane in lanes where Bool.random(using: &generator) { ends[lane] = (["0", "gone"].randomElement(using: &generator)!, 3) }
        var handovers = 0
        for round in 1...60 {
            for name in names.shuffled(using: &generator) {
                let owners = ends.filter { $0.value.round > round }.mapValues(\.owner)
                let plan = FleetPlan(replicas: Dictionary(uniqueKeysWithValues: names.map { ($0, Set(lanes)) }), owners: owners)
                if round > 40 { handovers += plan.taken(by: name).count + owners.count { $0.value == name } - plan.kept(by: name).count }
                for lane in plan.kept(by: name).union(plan.taken(by: name)) { ends[lane] = (name, round + 3) }
            }
        }
        let counts = names.map { name in ends.count { $0.key != .maintenance && $0.value.owner == name } }
        #expect(counts.reduce(0, +) == 7 && counts.max()! - counts.min()! <= 1)
        #expect(ends[.maintenance].map { names.contains($0.owner) } == true)
        #expect(handovers == 0)
    }
}
