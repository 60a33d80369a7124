// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

extension Quarantine {
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
            try output.print(["dropped": dropped], dropped == 1 ? "1 notification is gone." : "\(dropped) notifications are gone.")
        }
    }
}
