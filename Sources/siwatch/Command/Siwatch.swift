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
        subcommands: [
            Init.self, Run.self, Check.self, Migrate.self, Status.self, ShowHealth.self, Doctor.self, Explain.self, Receipt.self,
            Export.self, Forget.self, Unverified.self, Recheck.self, Pause.self, Resume.self, Breaker.self, Revocations.self,
            Quarantine.self, Enqueue.self, Import.self, Backup.self, Move.self, App.self, Key.self, ClientSecretCommand.self,
            HTTPCommand.self, IntakeCommand.self, DeliveryCommand.self, ShowVersion.self, TryInsert.self,
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
        FirstProcess.begin()
        PrivateMemory.begin()
        ParserGuard.runIfAsked()
        var invocation = Invocation.current
        invocation.isProcess = true
        await Foundation.exit(invocation.run())
    }
}
