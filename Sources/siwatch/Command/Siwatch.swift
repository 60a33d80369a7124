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
            Run.self, Check.self, Migrate.self, Status.self, ShowHealth.self, Doctor.self, Explain.self, Receipt.self, Export.self,
            Forget.self,
            Unverified.self,
            Recheck.self, Pause.self, Resume.self, Breaker.self, Revocations.self, Quarantine.self, Enqueue.self, Backup.self, Move.self,
            App.self, Key.self, HTTPCommand.self, IntakeCommand.self, DeliveryCommand.self, ShowVersion.self, ParseTOML.self,
        ]
    )

    /// Runs a command. Each error that the command throws becomes a sentence on stderr and an exit code.
    static func main() async {
        FirstProcess.begin()
        PrivateMemory.begin()
        do {
            var command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let failure as CommandFailure {
            for message in failure.messages { printError("siwatch: \(message)") }
            Foundation.exit(failure.code.rawValue)
        } catch {
            exit(withError: error)
        }
    }
}
