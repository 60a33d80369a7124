// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct App: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Changes what the database knows of an app.",
        subcommands: [Rename.self]
    )
}

extension App {
    struct Rename: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Gives an app another name, in the database.",
            discussion: """
                siwatch has to be stopped. Give the app the same name in the configuration: siwatch does not start until both agree. Backends \
                that ask by the app's name have to follow.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The name in the database.") var old: String
        @Argument(help: "The name from now on.") var new: String

        func validate() throws {
            guard ValueRule.isName(new) else { throw ValidationError("A name has 1 to 64 characters and no control characters.") }
            guard !FleetLane.isTaken(new) else { throw ValidationError("This name has another meaning in the metrics.") }
        }

        func run() async throws {
            let configuration = try options.readConfiguration()
            try await configuration.withStoreAlone { try await $0.renameApp(old, to: new) }
            let isConfigured = configuration.apps.contains { $0.name == new }
            try output.print(
                ["old": old, "new": new],
                isConfigured
                    ? "\(old.printable) is \(new.printable) now, as the configuration has it."
                    : "\(old.printable) is \(new.printable) in the database now. Write name = \"\(new.printable)\" in \(configuration.source) too."
            )
        }
    }
}
