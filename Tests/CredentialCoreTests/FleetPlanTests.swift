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

    /// Apple may refuse the key of one replica only.
    @Test func whatAppleRefusesGoesToAnother() {
        let owners = [lanes[0]: "a", lanes[1]: "a", .maintenance: "a"]
        var plan = FleetPlan(replicas: ["a": Set(lanes), "b": Set(lanes)], refusals: ["a": [lanes[0]]], owners: owners)
        #expect(plan.kept(by: "a") == [lanes[1], .maintenance])
        plan.owners[lanes[0]] = nil
        #expect(!plan.taken(by: "a").contains(lanes[0]) && plan.taken(by: "b").contains(lanes[0]))
        plan.owners = [lanes[0]: "b"]
        #expect(plan.kept(by: "b") == [lanes[0]], "however many it has")
    }

    @Test func whatAppleRefusesToAllIsKept() {
        var plan = FleetPlan(replicas: ["a": Set(lanes), "b": [lanes[0]]], refusals: ["a": Set(lanes)], owners: [lanes[1]: "a"])
        #expect(plan.kept(by: "a") == [lanes[1]], "nobody else has it")
        plan.owners = [lanes[0]: "a"]
        plan.refusals["b"] = [lanes[0]]
        #expect(plan.kept(by: "a") == [lanes[0]])
        plan.owners = [:]
        #expect(plan.taken(by: "a").contains(lanes[0]) && plan.taken(by: "b") == [lanes[0]])
    }

    /// Replicas come and go. Each renews once in a round, and a lease takes three rounds. Then every lane that a replica could own has an
    /// owner, one that Apple does not refuse if there is one, and the loads of two replicas differ by one lane at most if Apple refuses
    /// none.
    @Test(arguments: 0..<100)
    func itComesToRest(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let names = (0..<Int.random(in: 1...5, using: &generator)).map { "\($0)" }
        var ends: [FleetLane: (owner: String, round: Int)] = [:]
        for lane in lanes where Bool.random(using: &generator) { ends[lane] = (["0", "gone"].randomElement(using: &generator)!, 3) }
        var refusals: [String: Set<FleetLane>] = [:]
        if seed >= 50 {
            for name in names { refusals[name] = Set(lanes.filter { _ in Bool.random(using: &generator) }).subtracting([.maintenance]) }
        }
        var handovers = 0
        for round in 1...60 {
            for name in names.shuffled(using: &generator) {
                let owners = ends.filter { $0.value.round > round }.mapValues(\.owner)
                let replicas = Dictionary(uniqueKeysWithValues: names.map { ($0, Set(lanes)) })
                let plan = FleetPlan(replicas: replicas, refusals: refusals, owners: owners)
                if round > 40 { handovers += plan.taken(by: name).count + owners.count { $0.value == name } - plan.kept(by: name).count }
                for lane in plan.kept(by: name).union(plan.taken(by: name)) { ends[lane] = (name, round + 3) }
            }
        }
        #expect(lanes.allSatisfy { ends[$0].map { names.contains($0.owner) } == true } && handovers == 0)
        if refusals.isEmpty {
            let counts = names.map { name in ends.count { $0.key != .maintenance && $0.value.owner == name } }
            #expect(counts.max()! - counts.min()! <= 1)
        }
        for (lane, end) in ends where refusals[end.owner]?.contains(lane) == true {
            #expect(names.allSatisfy { refusals[$0]?.contains(lane) == true }, "\(lane)")
        }
    }
}
