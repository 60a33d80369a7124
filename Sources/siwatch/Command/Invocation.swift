// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

/// One call of siwatch: its arguments, its console, its environment and its clock. Tests make their own, and so call commands in their
/// process.
///
/// Commands find it as `current`, because `run()` of ArgumentParser takes nothing.
struct Invocation: Sendable {
    /// Without the name of the program.
    var arguments: [String]
    var console = Console.standard
    var environment = ProcessInfo.processInfo.environment
    var clock = WallClock.system
    /// The file to start this program from once more.
    var program = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
    /// Whether it is the only call of its process, which may end with it.
    var isProcess = false

    /// Outside of any call: that of the process.
    @TaskLocal static var current = Invocation(arguments: Array(CommandLine.arguments.dropFirst()))

    /// Runs the command that the arguments name. Each error that the command throws becomes a sentence and an exit code.
    ///
    /// - Returns: the exit code.
    func run() async -> Int32 {
        await Self.$current.withValue(self) {
            do {
                var command = try Siwatch.parseAsRoot(arguments)
                if var asynchronous = command as? any AsyncParsableCommand {
                    try await asynchronous.run()
                } else {
                    try command.run()
                }
                return 0
            } catch let failure as CommandFailure {
                return failure.tell()
            } catch {
                if let unknown = CommandFailure(unknownCommandIn: arguments) { return unknown.tell() }
                return Siwatch.tell(error)
            }
        }
    }
}

extension Siwatch {
    /// Says what ArgumentParser says of an error, which may also be a call for help.
    fileprivate static func tell(_ error: any Error) -> Int32 {
        let (message, code) = (fullMessage(for: error), exitCode(for: error))
        if !message.isEmpty {
            if code.isSuccess { try? printOutput(message) } else { printError(message) }
        }
        return code.rawValue
    }
}
