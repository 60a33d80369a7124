// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

extension Revocations {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists the deleted accounts of which backends told siwatch, and what became of each token.",
            discussion: """
                For auditors: a line for each token of a request to revoke, or one for a request without tokens, oldest request first. The \
                outcome is waiting, held, or one of revocation_log. revoke_at is when Apple was asked to revoke the token, after_at when \
                Apple's rejection of it was heard; siwatch explain SUB --receipts shows the answers themselves. A forgotten user stands \
                here under the pseudonym. What is older than retention.revocation_log is gone. It reads the log from end to end.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Flag(help: "Print CSV, for spreadsheets.") var csv = false
        @Option(
            help: ArgumentHelp(
                "Only what was requested then or later. As 2026-11-21T13:12:34Z or milliseconds since 1970.",
                valueName: "time"
            )
        )
        var since: Timestamp?
        @Option(help: ArgumentHelp("Only what was requested before then.", valueName: "time")) var until: Timestamp?
        @Option(help: ArgumentHelp("Only requests at the clients of this app.", valueName: "name")) var app: String?

        func validate() throws {
            guard !csv || !output.json else { throw ValidationError("--csv and --json are two forms: take one of them.") }
        }

        func run() async throws {
            let first = since ?? Timestamp.legal.lowerBound
            // In whole milliseconds, so that two periods that meet share no request.
            let last = until?.advanced(by: .milliseconds(-1)) ?? Timestamp.legal.upperBound
            var found = try await options.readConfiguration().withStore { store in
                if let app { try await store.demand(app) }
                return try await store.revocationsRequested(since: first, until: last)
            }
            if let app { found.removeAll { $0.app != app } }
            if csv { return try printOutput(Self.csv(found)) }
            try output.print(["revocations": found] as Members, Self.text(found))
        }

        private static func csv(_ found: [RequestedRevocation]) -> String {
            let head = "request,app,client_id,user_id,requested_at,outcome,reason,settled_at,revoke_at,after_at"
            let rows = found.map { row in
                let fields: [String?] = [
                    "\(row.request)", row.app, row.clientID, row.userID, row.requestedAt.text, row.outcome, row.reason, row.settledAt?.text,
                    row.revokeAt?.text, row.afterAt?.text,
                ]
                return fields.map { $0?.asCSV ?? "" }.joined(separator: ",")
            }
            return ([head] + rows).joined(separator: "\n")
        }

        private static func text(_ found: [RequestedRevocation]) -> String {
            guard !found.isEmpty else { return "No request to revoke is known of that time." }
            let counts = Dictionary(grouping: found, by: \.outcome).mapValues(\.count).sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            let summary = counts.map { "\($0.key.printable) \($0.value)" }.joined(separator: ", ")
            let requests = Set(found.map(\.request)).count.counted("request")
            let width = max(found.map(\.userID.printable.count).max() ?? 0, 4)
            let head = "\("requested".padded(to: 24))  \("settled".padded(to: 24))  \("user".padded(to: width))  outcome"
            let rows = found.map { row in
                let why = row.reason.map { " (\($0.printable))" } ?? ""
                return "\(row.requestedAt.text)  \((row.settledAt?.text ?? "").padded(to: 24))  "
                    + "\(row.userID.printable.padded(to: width))  \(row.outcome.printable)\(why), \(row.clientID.printable)"
            }
            return (["\(requests) to revoke: \(summary)", "", head] + rows).joined(separator: "\n")
        }
    }
}

extension String {
    /// One field of RFC 4180. Text from outside that a spreadsheet would take for a formula begins with an apostrophe.
    fileprivate var asCSV: String {
        let text = printable
        let plain = text.first.map { "=+-@".contains($0) } ?? false ? "'\(text)" : text
        return plain.contains { ",\"".contains($0) } ? "\"\(plain.replacing("\"", with: "\"\""))\"" : plain
    }
}
