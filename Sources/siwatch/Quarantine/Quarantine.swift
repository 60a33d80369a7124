// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Quarantine: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows and empties the quarantine of rejected notifications.",
        subcommands: [List.self, Show.self, Retry.self, Drop.self]
    )
}

extension RejectionReason: ExpressibleByArgument {}
