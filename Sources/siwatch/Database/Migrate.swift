// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

struct Migrate: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates the database and its sealing key, or brings them up to date.",
        discussion: """
            Run it once before the first backend inserts a row. `siwatch run` does the same when it starts, where it may write the folder \
            of the key.
            """
    )

    @OptionGroup var options: CommonOptions

    func run() throws {
        let configuration = try options.readConfiguration()
        let database = try OpenedDatabase(configuration, try Keys(configuration))
        database.close()
        print("\(configuration.database.path) is ready.")
    }
}
