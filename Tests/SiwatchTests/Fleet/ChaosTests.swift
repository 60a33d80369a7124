// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import DaemonHarness
import Testing

/// Three replicas, a real server, and whatever can go wrong around them, while people come and go. `make test-chaos` runs it at its full
/// length.
///
/// After each fault it is looked whether nothing is lost and nothing told twice, nobody is signed out without cause, nothing is stuck, the
/// feed is whole, and Apple is asked by one replica, within its limits and about nothing twice; and at the end, whether all is as people
/// did it, no process holds more than before, and no token stands where it has no business.
struct ChaosTests {
    private static let faults = setting("SIWATCH_TEST_FAULTS", FleetFault.Kind.allCases.count)
    /// Of each lane.
    private static let rows = setting("SIWATCH_TEST_ROWS", 80)
    private static let seed = setting("SIWATCH_TEST_SEED", UInt64.random(in: 0...9_999))

    @Test(.timeLimit(.minutes(180))) func whateverStrikesNothingIsLostAndNobodyIsSignedOut() async throws {
        var generator = SeededGenerator(seed: Self.seed)
        let isLong = Self.faults > FleetFault.Kind.allCases.count * 2
        do {
            try await FleetRun.with(seed: Self.seed, isLong: isLong) { run in
                run.say("seed \(Self.seed): \(Self.faults) faults, \(Self.rows) rows for each lane")
                try await Self.strike(&run, using: &generator)
                try await run.end()
            }
        } catch {
            throw HarnessError("SIWATCH_TEST_SEED=\(Self.seed) SIWATCH_TEST_FAULTS=\(Self.faults) SIWATCH_TEST_ROWS=\(Self.rows): \(error)")
        }
    }

    private static func strike(_ run: inout FleetRun, using generator: inout SeededGenerator) async throws {
        /// What goes on while the next fault strikes.
        var lasting: FleetFault?
        for (number, kind) in kinds(using: &generator).enumerated() {
            let fault = FleetFault.random(kind, sparing: Set([lasting?.struck].compactMap(\.self)), using: &generator)
            if let former = lasting, fault.isAlone {
                try await run.fleet.heal(after: former)
                lasting = nil
            }
            let (people, count) = (run.people, rows * (number + 1) / faults - rows * number / faults)
            async let wave: Void = people.wave(count)
            try await run.fleet.strike(fault)
            // Whoever is left has to go on.
            try await people.signInAndWait(byCode: .random(using: &generator))
            try await wave
            if lasting == nil, fault.lasts, Int.random(in: 0..<3, using: &generator) == 0 {
                lasting = fault
            } else {
                if let former = lasting { try await run.fleet.heal(after: former) }
                try await run.fleet.heal(after: fault)
                lasting = nil
            }
            try await run.look(after: "\(fault), fault \(number + 1)")
            run.say("\(number + 1): \(fault)\(lasting == nil ? "" : ", which goes on")")
        }
        if let lasting { try await run.fleet.heal(after: lasting) }
    }

    /// Each of them once, and then whichever; but seldom what takes long.
    private static func kinds(using generator: inout SeededGenerator) -> [FleetFault.Kind] {
        let all = FleetFault.Kind.allCases
        let frequent = all.filter { $0 != .absence }
        var kinds = all.shuffled(using: &generator)
        while kinds.count < faults {
            kinds.append(Int.random(in: 0..<20, using: &generator) == 0 ? .absence : frequent.randomElement(using: &generator)!)
        }
        return Array(kinds.prefix(faults))
    }
}
