// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialTables

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates the database and its sealing key, or brings them up to date.",
        discussion: """
            Run it once before the first backend inserts a row. `siwatch run` does the same when it starts, where it may write the folder \
            of the key.
            """
    )

    @OptionGroup var options: CommonOptions

    @Flag(help: "Print the SQL that would run, and change nothing.")
    var dryRun = false

    func run() async throws {
        let configuration = try options.readConfiguration()
        let keys = try Keys(configuration)
        if dryRun { return try printPlan(of: configuration, keys) }
        let database = try await OpenedDatabase(configuration, keys)
        let hasNewKey = database.hasNewKey
        await database.leave()
        await database.close()
        if hasNewKey {
            try printOutput(
                """
                \(configuration.encryption.keyFile) is new: it seals the tokens, and nobody can make it again. Copy it now, and keep the copy \
                apart from the backups of the database.
                """
            )
        }
        try printOutput("\(try configuration.namedDatabase().name) is ready.")
    }

    private func printPlan(of configuration: Configuration, _ keys: Keys) throws {
        let database = try configuration.namedDatabase()
        do {
            let plan = try database.migrationPlan()
            if keys.ring == nil, try database.hasSealedRows() { throw CommandFailure.missingKey(of: configuration) }
            switch plan.found {
            case let found? where plan.script.isEmpty: try printOutput("-- \(database.name) is up to date, with schema version \(found).")
            case let found?:
                try printOutput("-- \(database.name) has schema version \(found). siwatch migrate brings it to version \(plan.needed):")
            case nil:
                try printOutput("-- \(database.name) is not there yet. siwatch migrate creates it, with schema version \(plan.needed):")
            }
            if !plan.script.isEmpty { try printOutput(database.migrationNote + "\n" + plan.script.dropLast()) }
        } catch {
            throw CommandFailure(database: error)
        }
        if keys.ring == nil {
            try printOutput("-- The key \(configuration.encryption.keyFile) is not there yet. siwatch migrate creates it.")
        }
    }
}
