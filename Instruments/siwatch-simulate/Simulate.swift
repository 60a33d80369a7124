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

    func run() async throws {
        if users > 0 { try await play() }
        let result = await SimulationCampaign.run(seed.map { $0...$0 } ?? first...(first + max(seeds, 1) - 1))
        print(result.summary)
        if let failure = result.failure {
            print(failure.description)
            throw ExitCode.failure
        }
    }

    private func play() async throws {
        for scenario in Scenario.allCases {
            let (report, took) = await scenario.timed(users: users)
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
