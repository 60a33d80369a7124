// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

extension Quarantine {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists what is in quarantine, the newest first."
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Option(help: ArgumentHelp("Only what was rejected for this reason.", valueName: "reason")) var reason: RejectionReason?
        @Option(help: ArgumentHelp("At most so many.", valueName: "count")) var limit = 20
        @Option(help: ArgumentHelp("Only what is older than this row: the next page.", valueName: "id")) var before: Int64?

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be 1 or more.") }
        }

        func run() async throws {
            // Reads one row more than it shows, to learn whether there is a next page.
            let (found, counts) = try await options.readConfiguration().withStore { store in
                (
                    try await store.quarantined(reason: reason, before: before, upTo: limit < .max ? limit + 1 : limit),
                    try await store.quarantineCounts()
                )
            }
            let rows = Array(found.prefix(limit))
            try output.print(
                ["counts": counts, "rows": rows.map { QuarantineReport($0) }] as Members,
                text(rows, counts, hasMore: found.count > rows.count)
            )
        }

        private func text(_ rows: [QuarantinedNotification], _ counts: [String: Int], hasMore: Bool) -> String {
            guard !counts.isEmpty else { return "The quarantine is empty." }
            let total = counts.values.reduce(0, +)
            let summary = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\($0.key.printable) \($0.value)" }
            var lines = ["\(total) in quarantine: \(summary.joined(separator: ", "))"]
            guard let last = rows.last else { return lines[0] }
            lines += ["", "\("id".padded(to: -8))  \("received".padded(to: 24))  \("reason".padded(to: 16))  detail"]
            for row in rows {
                let id = String(row.id).padded(to: -8)
                lines.append("\(id)  \(row.receivedAt.text)  \(row.reason.printable.padded(to: 16))  \(row.detail.printable)")
            }
            if hasMore { lines += ["", "Older ones: \(reason.map { "--reason \($0.rawValue) " } ?? "")--before \(last.id)"] }
            return lines.joined(separator: "\n")
        }
    }
}
