// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

extension Quarantine {
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows one notification with its payload.",
            discussion: """
                The payload is anything that anybody has sent. What a terminal might obey is spelled out, as in \\u{1b}. Header and claims of \
                a token are decoded for reading; nothing says that they are true.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "As listed.") var id: Int64

        func run() async throws {
            guard let row = try await options.readConfiguration().withStore({ try await $0.quarantined(id) }) else {
                throw CommandFailure.failed("there is no row \(id) in quarantine")
            }
            let report = QuarantineReport(row, showsPayload: true)
            try output.print(report, Self.text(row, report))
        }

        private static func text(_ row: QuarantinedNotification, _ report: QuarantineReport) -> String {
            var lines = [
                "id        \(row.id)",
                "received  \(row.receivedAt.text)",
                "rejected  \(row.rejectedAt.text)",
                "reason    \(row.reason.printable)",
                "detail    \(row.detail.printable)",
            ]
            if let header = report.header { lines.append("header    \(header)") }
            if let claims = report.claims { lines.append("claims    \(claims)") }
            lines.append("payload   \(report.payload ?? "")")
            return lines.joined(separator: "\n")
        }
    }
}
