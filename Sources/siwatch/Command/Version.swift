// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import SQLiteStore

enum Version {
    static let current = "0.1.0"
}

struct ShowVersion: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Says which siwatch this is, and which SQLite it uses."
    )

    func run() {
        print("siwatch \(Version.current), SQLite \(SQLiteLibrary.version)")
    }
}
