// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

enum Version {
    static let current = "0.1.0"
}

struct ShowVersion: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Says which siwatch this is, and which libraries it keeps its data with."
    )

    func run() throws {
        try printOutput("siwatch \(Version.current), \(DatabaseLocation.libraries)")
    }
}
