// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialTesting
import DaemonHarness
import Testing

/// Three replicas, a real server, and every kind of fault around them, while people come and go. `make test-chaos` runs it at its full
/// length.
///
/// After each fault and at the end all has to hold that stands with a number in `FleetInspector` and `ReplicaFleet`, from I1 to I10.
struct ChaosTests {
    private static let faults = setting("SIWATCH_TEST_FAULTS", FleetFault.Kind.allCases.count)
    private static let rows = setting("SIWATCH_TEST_ROWS", 200)
    private static let seed = setting("SIWATCH_TEST_SEED", UInt64.random(in: 0...9_999))
    private static let minutes = faults > FleetFault.Kind.allCases.count || rows > 200 ? 180 : 20

    @Test(.enabled(if: Length.isLong("SIWATCH_TEST_FAULTS"), "CI and make test-chaos run it"), .timeLimit(.minutes(minutes)))
    func whateverStrikesNothingIsLostAndNobodyIsSignedOut() async throws {
        var generator = SeededGenerator(seed: Self.seed)
        let isLong = Self.faults > FleetFault.Kind.allCases.count * 2
        do {
            // Then the first faults have lasted a minute.
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
        /// The fault that goes on while the next one strikes.
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
            // The remaining replicas must go on.
            // A code makes the one that has taken over ask Apple.
            let byCode = .random(using: &generator) || fault.struck != nil && length != .brief
            try await people.signInAndWait(byCode: byCode)
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

    /// The owner of Apple's lane, if another replica must take over, and now and then another replica.
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

    /// The length of a fault. The first of each kind lasts until another replica asks Apple, and so does one in three later ones. In a long
    /// run some last until another replica has taken over the claims.
    private func length(of number: Int, isLong: Bool, using generator: inout SeededGenerator) -> FleetFault.Length {
        if number < FleetFault.Kind.allCases.count { return .pastTheLease }
        if isLong, Int.random(in: 0..<30, using: &generator) == 0 { return .pastTheClaims }
        return Int.random(in: 0..<3, using: &generator) == 0 ? .pastTheLease : .brief
    }

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

/// Three replicas that the test kills in turn while people come and go. The result is the same as on one undisturbed SQLite file. `make
/// test-fleet-kills` runs it for ten minutes.
struct FleetKillTests {
    private static let minutes = setting("SIWATCH_TEST_MINUTES", 0)
    private static let kills = 4
    /// Rows of each lane that come at a time, during the kills and restarts.
    private static let wave = 20
    private static let seed = setting("SIWATCH_TEST_SEED", UInt64.random(in: 0...9_999))

    @Test(
        .enabled(if: Length.isLong("SIWATCH_TEST_MINUTES"), "CI and make test-fleet-kills run it"),
        .timeLimit(.minutes(minutes > 0 ? minutes + 170 : 20))
    ) func theEndIsTheSameAsOnOneFileThatNothingHasStruck() async throws {
        try await FleetRun.with(seed: Self.seed, isLong: Self.minutes > 0, patience: .zero) { run in
            let start = ContinuousClock.now
            var number = 0
            while Self.minutes > 0 ? ContinuousClock.now < start + .seconds(60 * Self.minutes) : number < Self.kills {
                let (people, fleet, fault) = (run.people, run.fleet, FleetFault.kill(number % ReplicaFleet.size))
                try await people.keepComing(Self.wave) {
                    try await people.untilAmidWork(of: Self.wave)
                    try await fleet.strike(fault)
                    try await people.signInAndWait(byCode: number % 2 == 0)
                    try await fleet.heal(after: fault)
                }
                number += 1
                try await run.look(after: "kill \(number), seed \(Self.seed)")
                run.say("kill \(number)")
            }
            try await run.end()
            let twin = FileTwin(of: run.site)
            let differences = try await twin.differences(after: run.people.facts)
            #expect(differences == [], "seed \(Self.seed)")
            run.say("\(number) kills; \(differences.count) differences")
        }
    }
}
