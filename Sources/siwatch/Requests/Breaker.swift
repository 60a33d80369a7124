// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import SQLiteStore

struct Breaker: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows whether Apple's rejections of tokens are believed, and says that they are real or not.",
        discussion: """
            The breaker of an app opens when Apple rejects too many tokens, rejects a canary, or blames the configuration. While it is open \
            no rejection changes anybody's state, and Apple is asked slowly. It closes by itself when the answers are normal again.
            """,
        subcommands: [Show.self, Confirm.self, Reset.self],
        defaultSubcommand: Show.self
    )

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Shows the breaker of every app.")

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let reports = try await BreakerReport.all(in: try options.readConfiguration())
            try output.print(reports, reports.map(\.text).joined(separator: "\n"))
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

/// What is to be said of one app's breaker.
struct BreakerReport: Encodable {
    var app: String
    var isOpen: Bool
    /// Nil while it is closed, and where its state cannot be read.
    var openedAt: Timestamp?
    var causes: [RejectionBreaker.Cause]
    var blamedClients: [String]
    var rejectedCanaries: [CredentialID]
    /// The last answers that were judged, and how many of them were rejections.
    var answers: Int
    var rejections: Int
    /// Answers since the rejections were out of proportion.
    var probes: Int
    var rejectedProbes: Int
    var confirmedAt: Timestamp?
    /// Rejections that wait to be believed.
    var pending: Int

    private init(_ breaker: RejectionBreaker, of app: AppStatus) {
        self.app = app.app
        isOpen = breaker.isOpen
        openedAt = breaker == .unread ? nil : breaker.openedAt
        causes = breaker.causes
        blamedClients = breaker.blamedClients.sorted()
        rejectedCanaries = breaker.rejectedCanaries.sorted { ($0.userID, $0.clientID) < ($1.userID, $1.clientID) }
        (answers, rejections) = breaker.judged
        (probes, rejectedProbes) = breaker.probed
        confirmedAt = breaker.confirmedAt
        pending = app.rejections?.pending ?? 0
    }

    static func all(_ breakers: [String: RejectionBreaker], of apps: [AppStatus]) -> [BreakerReport] {
        apps.map { BreakerReport(breakers[$0.app] ?? RejectionBreaker(), of: $0) }
    }

    static func all(in configuration: Configuration) async throws(CommandFailure) -> [BreakerReport] {
        do {
            let store = try SQLiteStore.openForReading(DatabaseFile.existing(in: configuration))
            defer { try? store.close() }
            return all(try await store.breakers(), of: try await store.apps())
        } catch {
            throw CommandFailure(database: error)
        }
    }

    var text: String {
        guard let openedAt else {
            if isOpen { return "\(app.printable): open, because its state cannot be read: no rejection is believed" }
            let waiting = pending > 0 ? ", \(pending) rejections wait to be believed" : ""
            return "\(app.printable): closed, \(rejections) of the last \(answers) answers are rejections\(waiting)"
        }
        let reasons = causes.map { cause in
            switch cause {
            case .disproportion:
                "\(rejections) of \(answers) answers were rejections; of \(probes) since then, \(rejectedProbes)"
            case .canary:
                "Apple rejected the canary \(rejectedCanaries.map { "\($0.userID.printable) at \($0.clientID.printable)" }.joined(separator: ", "))"
            case .blamedClient:
                "Apple blames the configuration of \(blamedClients.map(\.printable).joined(separator: ", "))"
            }
        }
        return "\(app.printable): open since \(openedAt.text), no rejection is believed: \(reasons.joined(separator: "; "))"
    }
}
