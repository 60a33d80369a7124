// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates the database and its sealing key, or brings them up to date.",
        discussion: """
            Run it once before the first backend inserts a row. `siwatch run` does the same when it starts, where it may write the folder \
            of the key.
            """
    )

    @OptionGroup var options: CommonOptions

    func run() async throws {
        let configuration = try options.readConfiguration()
        let database = try await OpenedDatabase(configuration, try Keys(configuration))
        await database.leave()
        await database.close()
        print("\(try configuration.namedDatabase().name) is ready.")
    }
}
