// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import SQLiteStore

/// What a backend does first, run by `siwatch init` as the backend's user. It needs no configuration, which that user may not read.
struct TryInsert: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "try-insert",
        abstract: "Inserts a row into each queue of a file, and takes it back.",
        shouldDisplay: false
    )

    @Argument var path: String

    func run() throws {
        do {
            try SQLiteStore.tryInserts(at: path)
        } catch {
            throw CommandFailure(database: error)
        }
    }
}
