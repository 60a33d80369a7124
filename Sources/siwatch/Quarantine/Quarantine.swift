// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Quarantine: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows and empties the quarantine of rejected notifications.",
        subcommands: [List.self, Retry.self, Drop.self]
    )
}

extension RejectionReason: ExpressibleByArgument {}

extension Quarantine {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists what is in quarantine, the newest first, or shows one notification with its payload.",
            discussion: """
                The payload is anything that anybody has sent. What a terminal might obey is spelled out, as in \\u{1b}. Header and claims of \
                a token are decoded for reading; nothing says that they are true.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "As listed, to see one whole.") var id: Int64?
        @Option(help: ArgumentHelp("Only what was rejected for this reason.", valueName: "reason")) var reason: RejectionReason?
        @Option(help: ArgumentHelp("At most so many.", valueName: "count")) var limit = 20
        @Option(help: ArgumentHelp("Only what is older than this row: the next page.", valueName: "id")) var before: Int64?

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be 1 or more.") }
        }

        func run() async throws {
            if let id { return try await show(id) }
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

        private func show(_ id: Int64) async throws {
            guard let row = try await options.readConfiguration().withStore({ try await $0.quarantined(id) }) else {
                throw CommandFailure.failed("there is no row \(id) in quarantine")
            }
            let report = QuarantineReport(row, showsPayload: true)
            try output.print(report, report.text)
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

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Puts notifications back into their queue.",
            discussion: """
                Once the cause is mended: a missing client added to the configuration, say. One that was settled in the meantime is a \
                duplicate and changes nothing.

                A notification's expiry is judged against the time it was received, which is kept. --received-at gives another, for \
                instance where a backend's clock was wrong.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var selection: QuarantineSelection
        @Option(help: ArgumentHelp("As 2026-11-21T13:12:34Z or milliseconds since 1970.", valueName: "time")) var receivedAt: Timestamp?

        func run() async throws {
            let moved = try await selection.carryOut(options) { .retryQuarantined($0, receivedAt: receivedAt) }
            let expiry =
                selection.reason == .expired && receivedAt == nil && moved > 0
                ? " Unless queues.clock_skew has grown, they expire again, because the time at which they came stays: see --received-at."
                : ""
            try output.print(["moved": moved], "\(moved.counted("notification waits", "notifications wait")) again.\(expiry)")
        }
    }

    struct Drop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Deletes notifications for good.",
            discussion: """
                siwatch also deletes notifications by itself: after retention.quarantine, and unsigned ones when newer ones need the room.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var selection: QuarantineSelection

        func run() async throws {
            let dropped = try await selection.carryOut(options) { .dropQuarantined($0) }
            try output.print(["dropped": dropped], "\(dropped.counted("notification is", "notifications are")) gone.")
        }
    }
}
