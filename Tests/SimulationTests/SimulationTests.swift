// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import Foundation
import Testing
import siwatch_simulate

/// Thousands of days that nobody would think of.
@Suite struct SimulationTests {
    /// `SIMULATION_SEED` picks one run, `SIMULATION_SEEDS` says how many there are.
    private static let seeds: ClosedRange<UInt64> = {
        func number(_ name: String) -> UInt64? { ProcessInfo.processInfo.environment[name].flatMap(UInt64.init) }
        return number("SIMULATION_SEED").map { $0...$0 } ?? 1...(number("SIMULATION_SEEDS") ?? 2_000)
    }()

    /// What takes two accidents at once.
    private static let rare: Set<Situation> = [.foreignToken, .proofBegunAnew]

    @Test func everySeedKeepsEveryPromise() async {
        let result = await SimulationCampaign.run(Self.seeds)
        print(result.summary)
        if let failure = result.failure {
            Issue.record("\(failure.description)")
            return
        }
        // What is never tried is never proved.
        if Self.seeds.count >= 2_000 {
            for situation in Situation.allCases {
                let least = Self.rare.contains(situation) ? 1 : 20
                #expect(result.tally[situation, default: 0] >= least, "\(situation): \(result.tally[situation, default: 0])")
            }
        }
    }

    /// Fewer than in memory: a statement of a server's takes a hundred times as long.
    @Test func everySeedKeepsEveryPromiseOnPostgreSQLToo() async {
        let result = await SimulationCampaign.run(1...40, on: .postgres)
        print("PostgreSQL: \(result.summary)")
        if let failure = result.failure { Issue.record("\(failure.description)") }
    }

    /// What a process that dies has claimed is void in memory at once, and on a server once its lease has ended. Nothing else tells the two
    /// apart.
    @Test func withoutACrashBothStoresLiveTheSameDays() async {
        var (compared, different) = (0, [UInt64]())
        for seed: UInt64 in 1...60 {
            let memory = await Simulation.run(seed: seed)
            if memory.tally[.crash] != nil { continue }
            compared += 1
            let postgres = await Simulation.run(seed: seed, on: .postgres)
            if memory.digest != postgres.digest {
                different.append(seed)
                if let n = zip(memory.tail, postgres.tail).enumerated().first(where: { $0.element.0 != $0.element.1 })?.offset {
                    print("SEED \(seed)\n" + memory.tail[max(0, n - 12)..<n].joined(separator: "\n"))
                    print("< " + memory.tail[n..<min(n + 6, memory.tail.count)].joined(separator: "\n< "))
                    print("> " + postgres.tail[n..<min(n + 6, postgres.tail.count)].joined(separator: "\n> "))
                }
            }
        }
        print("compared \(compared), different \(different)")
        #expect(different == [])
    }

    @Test func theSameSeedIsTheSameRun() async {
        for seed: UInt64 in 1...20 {
            let (first, second) = (await Simulation.run(seed: seed), await Simulation.run(seed: seed))
            #expect(first.digest == second.digest, "\(seed)")
        }
    }

    @Test(arguments: Scenario.allCases) func aKnownDisasterTakesNobodyForGone(_ scenario: Scenario) async {
        let (report, took) = await scenario.timed(users: 100)
        print("\(scenario): \(report.requests) requests, \(report.answers) answered, in \(took)")
        if report.violation != nil { Issue.record("\(report.description)") }
    }

    @Test(arguments: PlantedBug.allCases) func aPlantedBugIsFound(_ bug: PlantedBug) async {
        for seed: UInt64 in 1...500 {
            let report = await Simulation.run(seed: seed, bug: bug)
            if let violation = report.violation {
                print("\(bug) is found by seed \(seed): \(violation)")
                return
            }
        }
        Issue.record("500 seeds did not find \(bug)")
    }
}
