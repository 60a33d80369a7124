// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Breaker: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows whether Apple's rejections of tokens are believed, and says that they are real or not.",
        discussion: """
            The breaker of an app opens when Apple rejects too many tokens, rejects a canary, or blames the configuration. While it is open \
            no rejection changes anybody's state, and Apple is asked slowly. It closes by itself when the answers are normal again.
            """,
        subcommands: [Show.self, Confirm.self, Reset.self],
        defaultSubcommand: Show.self
    )
}

extension Breaker {
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows the breaker of every app."
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let reports = try await options.readConfiguration().withStore { store in
                BreakerReport.all(try await store.breakers(), of: try await store.apps())
            }
            try output.print(Report(breakers: reports), reports.map(\.text).joined(separator: "\n"))
        }

        private struct Report: Encodable {
            var breakers: [BreakerReport]
        }
    }

    struct Confirm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "The rejections are real: closes the breaker and believes them.",
            discussion: """
                All rejections that wait are believed now, those of clients of which Apple has accepted no token among them. Where there \
                were too many, now or in the last two days, their number does not open the breaker for an interval; a canary or blame \
                does. Users whose rejection was forgotten while the breaker was open are asked about again at their daily check.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app's name in the configuration.") var app: String

        func run() async throws {
            let request = OperatorRequest.confirmRejections(app: app)
            let answer = try await request.carryOut(in: try options.readConfiguration())
            guard case .rejectionsConfirmed(let pending, let wasOpen) = answer else { throw CommandFailure(answer, to: request) }
            try output.print(
                Confirmation(app: app, pending: pending, wasOpen: wasOpen),
                (wasOpen ? "The breaker of \(app.printable) is closed." : "The breaker of \(app.printable) was closed.")
                    + (pending > 0 ? " \(pending) \(pending == 1 ? "rejection is" : "rejections are") believed now." : "")
            )
        }

        private struct Confirmation: Encodable {
            var app: String
            var pending: Int
            var wasOpen: Bool
        }
    }

    struct Reset: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Closes the breaker and forgets what it has seen.",
            discussion: "No rejection is believed for that. It opens again if the answers stay as they are."
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app's name in the configuration.") var app: String

        func run() async throws {
            let request = OperatorRequest.resetBreaker(app: app)
            let answer = try await request.carryOut(in: try options.readConfiguration())
            guard case .breakerReset(let wasOpen) = answer else { throw CommandFailure(answer, to: request) }
            try output.print(
                ResetReport(app: app, wasOpen: wasOpen),
                wasOpen ? "The breaker of \(app.printable) is closed." : "The breaker of \(app.printable) was closed; it begins anew."
            )
        }

        private struct ResetReport: Encodable {
            var app: String
            var wasOpen: Bool
        }
    }
}
