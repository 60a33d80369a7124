// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

/// `siwatch`, and what its subcommands share.
@main
struct Siwatch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "siwatch",
        abstract: "Keeps the state of Sign in with Apple credentials in a database that backends query.",
        version: Version.current,
        subcommands: [
            Run.self, Check.self, Migrate.self, Status.self, Explain.self, Unverified.self, Recheck.self, Pause.self, Resume.self,
            Breaker.self,
            Quarantine.self, Enqueue.self, Backup.self, App.self, ShowVersion.self, Manual.self,
            ParseTOML.self,
        ]
    )

    /// Runs a command and turns what it throws into one sentence each on stderr and an exit code.
    static func main() async {
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

/// Why a command ends early: sentences for people, a code for programs.
struct CommandFailure: Error {
    var code: ExitCode
    var messages: [String]

    /// Failed at run time.
    static func failed(_ message: String) -> CommandFailure { CommandFailure(code: .failure, messages: [message]) }
    /// A wrong command line, or an input that cannot be meant. `EX_USAGE` of sysexits.h.
    static func wrongUsage(_ message: String) -> CommandFailure { CommandFailure(code: ExitCode(64), messages: [message]) }
    /// A needed service is down, or another siwatch holds the database. `EX_UNAVAILABLE` of sysexits.h.
    static func unavailable(_ message: String) -> CommandFailure { CommandFailure(code: ExitCode(69), messages: [message]) }
    /// Configuration, keys or database are unusable. `EX_CONFIG` of sysexits.h: systemd does not restart after it.
    static func unusable(_ messages: [String]) -> CommandFailure { CommandFailure(code: ExitCode(78), messages: messages) }
}

struct CommonOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The configuration file. Also by SIWATCH_CONFIG.", valueName: "file"),
        completion: .file(extensions: ["toml"])
    )
    var config: String?

    var configurationPath: String {
        config ?? ProcessInfo.processInfo.environment["SIWATCH_CONFIG"] ?? "/etc/siwatch/siwatch.toml"
    }

    /// - Throws: every mistake of the file at once.
    func readConfiguration() throws(CommandFailure) -> Configuration {
        do {
            return try Configuration(contentsOf: configurationPath)
        } catch {
            let messages = error.mistakes.map { "\(error.source): \($0)" }
            throw error.isPassing ? .unavailable(messages.joined(separator: "; ")) : .unusable(messages)
        }
    }
}

func printError(_ line: String) {
    // A line that cannot be written, on a full disk say, must not end the program.
    try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
}
