// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
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
    private static let rows = setting("SIWATCH_TEST_ROWS", 200)
    private static let seed = setting("SIWATCH_TEST_SEED", UInt64.random(in: 0...9_999))
    /// For the time limit.
    private static let minutes = faults > FleetFault.Kind.allCases.count || rows > 200 ? 180 : 20

    @Test(.timeLimit(.minutes(minutes))) func whateverStrikesNothingIsLostAndNobodyIsSignedOut() async throws {
        var generator = SeededGenerator(seed: Self.seed)
        let isLong = Self.faults > FleetFault.Kind.allCases.count * 2
        do {
            // Then the first faults have had their minute.
            try await FleetRun.with(seed: Self.seed, isLong: isLong, patience: .seconds(75)) { run in
                run.say("seed \(Self.seed): \(Self.faults) faults, \(Self.rows) rows for each lane")
                try await strike(&run, isLong: isLong, using: &generator)
                try await run.end()
                #expect(try await run.traffic.handovers > 0)
                if isLong {
                    #expect(await run.fleet.history.fullDisks > 0)
                    #expect(try await run.traffic.mostOthersInASecond >= run.limits.requestsPerSecond)
                }
            }
        } catch {
            throw HarnessError("SIWATCH_TEST_SEED=\(Self.seed) SIWATCH_TEST_FAULTS=\(Self.faults) SIWATCH_TEST_ROWS=\(Self.rows): \(error)")
        }
    }

    private func strike(_ run: inout FleetRun, isLong: Bool, using generator: inout SeededGenerator) async throws {
        /// What goes on while the next fault strikes.
        var lasting: FleetFault?
        for (number, kind) in kinds(using: &generator).enumerated() {
            let length = length(of: number, isLong: isLong, using: &generator)
            let replica = try await victim(in: run.fleet, sparing: lasting?.struck, for: length, using: &generator)
            let fault = FleetFault.random(kind, of: replica, using: &generator)
            if let former = lasting, fault.isAlone {
                try await run.fleet.heal(after: former)
                lasting = nil
            }
            let (people, count) = (run.people, Self.rows * (number + 1) / Self.faults - Self.rows * number / Self.faults)
            async let wave: Void = people.wave(count)
            try await people.untilAmidWork(of: count)
            try await run.fleet.strike(fault)
            // Whoever is left has to go on.
            try await people.signInAndWait(byCode: .random(using: &generator))
            try await wave
            try await run.fleet.hold(fault, length)
            if lasting == nil, fault.lasts, Int.random(in: 0..<3, using: &generator) == 0 {
                lasting = fault
            } else {
                if let former = lasting { try await run.fleet.heal(after: former) }
                try await run.fleet.heal(after: fault)
                lasting = nil
            }
            try await run.look(after: "\(fault), fault \(number + 1)")
            run.say("\(number + 1): \(fault)\(fault.struck == nil ? "" : ", \(length)")\(lasting == nil ? "" : ", which goes on")")
        }
        if let lasting { try await run.fleet.heal(after: lasting) }
    }

    /// The one that asks Apple, where another has to follow it, and now and then otherwise.
    private func victim(
        in fleet: ReplicaFleet,
        sparing struck: Int?,
        for length: FleetFault.Length,
        using generator: inout SeededGenerator
    ) async throws -> Int {
        let other = (0..<ReplicaFleet.size).filter { $0 != struck }.randomElement(using: &generator)!
        let isOwner = .random(using: &generator) || length != .brief
        guard isOwner, let owner = try await fleet.owner, owner != struck else { return other }
        return owner
    }

    /// The first time of each kind it lasts until another asks Apple, and then in one of three cases; in a long run now and then until what
    /// a replica had claimed is another's.
    private func length(of number: Int, isLong: Bool, using generator: inout SeededGenerator) -> FleetFault.Length {
        if number < FleetFault.Kind.allCases.count { return .pastTheLease }
        if isLong, Int.random(in: 0..<30, using: &generator) == 0 { return .pastTheClaims }
        return Int.random(in: 0..<3, using: &generator) == 0 ? .pastTheLease : .brief
    }

    /// Each of them once, and then whichever; but seldom what takes long.
    private func kinds(using generator: inout SeededGenerator) -> [FleetFault.Kind] {
        let all = FleetFault.Kind.allCases
        let frequent = all.filter { $0 != .absence }
        var kinds = all.shuffled(using: &generator)
        while kinds.count < Self.faults {
            kinds.append(Int.random(in: 0..<20, using: &generator) == 0 ? .absence : frequent.randomElement(using: &generator)!)
        }
        return Array(kinds.prefix(Self.faults))
    }
}
