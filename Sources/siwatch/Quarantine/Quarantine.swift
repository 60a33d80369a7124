// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import SQLiteStore

struct Quarantine: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows and empties the quarantine of rejected notifications.",
        subcommands: [List.self, Show.self, Retry.self, Drop.self]
    )
}

extension RejectionReason: ExpressibleByArgument {}

extension Quarantine {
    static func withStore<Value>(_ options: CommonOptions, _ body: (SQLiteStore) async throws -> Value) async throws -> Value {
        let configuration = try options.readConfiguration()
        do {
            let store = try SQLiteStore.openForReading(DatabaseFile.existing(in: configuration))
            defer { try? store.close() }
            return try await body(store)
        } catch {
            throw CommandFailure(database: error)
        }
    }
}
