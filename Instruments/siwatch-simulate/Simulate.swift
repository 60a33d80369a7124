// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialTesting
import Foundation

/// Runs the deterministic simulation for as long as wanted.
@main
struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "siwatch-simulate",
        abstract: "Lives through days that nobody would think of, and checks every promise after every step."
    )

    @Option(help: "How many seeds to try.")
    var seeds: UInt64 = 2_000

    @Option(help: "The first of them.")
    var first: UInt64 = 1

    @Option(help: "The only one to try.")
    var seed: UInt64?

    @Option(help: "How many users the known disasters strike; 0 leaves them out.")
    var users = 0

    @Option(help: "What the process keeps its rows in: sqlite or postgres.")
    var store = Store.sqlite

    @Flag(help: "Say how often each situation was met.")
    var situations = false

    @Option(help: "A bug to plant: how early is it found?")
    var bug: PlantedBug?

    func run() async throws {
        if let bug { return try await find(bug) }
        if users > 0 { try await play() }
        let result = await SimulationCampaign.run(seed.map { $0...$0 } ?? first...(first + max(seeds, 1) - 1), on: store.databases)
        print(result.summary)
        if situations {
            for situation in Situation.allCases { print("\(situation): \(result.tally[situation] ?? 0)") }
        }
        if let failure = result.failure {
            print(failure.description)
            throw ExitCode.failure
        }
    }

    /// Tries one seed after another until one finds the bug.
    private func find(_ bug: PlantedBug) async throws {
        let result = await SimulationCampaign.run(first...(first + max(seeds, 1) - 1), on: store.databases, bug: bug)
        if let report = result.failure, let violation = report.violation {
            return print("\(bug) is found by seed \(report.seed): \(violation)")
        }
        print("\(bug) is not found")
        throw ExitCode.failure
    }

    private func play() async throws {
        for scenario in Scenario.allCases {
            let (report, took) = await scenario.timed(users: users, on: store.databases)
            let (believed, repeated) = (report.tally[.admitted] ?? 0, report.tally[.admittedOnRepetition] ?? 0)
            print(
                """
                \(scenario), \(scenario.users(of: users)) users: \(report.requests) requests, \(report.answers) answered, \
                \(believed) rejections believed, \(repeated) of them a day later, in \(took)
                """
            )
            fflush(nil)
            if report.violation != nil {
                print(report.description)
                throw ExitCode.failure
            }
        }
    }
}

enum Store: String, ExpressibleByArgument {
    case sqlite, postgres

    var databases: SimulatedDatabases {
        switch self {
        case .sqlite: .memory
        case .postgres: .postgres
        }
    }
}

extension PlantedBug: ExpressibleByArgument {}
