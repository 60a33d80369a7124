// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

extension Quarantine {
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
            try output.print(["moved": moved], (moved == 1 ? "1 notification waits again." : "\(moved) notifications wait again.") + expiry)
        }
    }
}
