// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

@main
struct Siwatch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "siwatch",
        abstract: "Keeps the state of Sign in with Apple credentials in a database that backends query.",
        version: Version.current,
        groupedSubcommands: [
            CommandGroup(name: "Set up", subcommands: [Init.self, Migrate.self, Run.self]),
            CommandGroup(name: "Look", subcommands: [Status.self, Doctor.self, Rejected.self, Report.self, VersionCommand.self]),
            CommandGroup(name: "One user", subcommands: [Explain.self, Recheck.self, Export.self, Forget.self]),
            CommandGroup(
                name: "Decide",
                subcommands: [Pause.self, Resume.self, Breaker.self, Revocations.self, Quarantine.self, DeliveryCommand.self]
            ),
            CommandGroup(name: "Data", subcommands: [Enqueue.self, Import.self, Backup.self, Move.self, Rename.self]),
            CommandGroup(name: "Secrets", subcommands: [SecretCommand.self]),
        ]
    )

    /// What `siwatch` alone says.
    func run() async throws {
        try printOutput(
            """
            Three commands to begin with:
              siwatch init      writes a configuration, makes the tables and checks both
              siwatch status    says whether all is well, and what to do if it is not
              siwatch doctor    looks for the reason if nothing appears, or nothing of one user
            siwatch --help lists all commands, siwatch help COMMAND explains one.
            """
        )
    }

    static func main() async {
        OwnProcess.begin()
        ParserGuard.runIfAsked()
        var invocation = Invocation.current
        invocation.isProcess = true
        await Foundation.exit(invocation.run())
    }
}
