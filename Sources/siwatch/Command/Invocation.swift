// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

/// One call of siwatch. Commands find it as `current`, because `run()` of ArgumentParser takes nothing. Tests make their own, and so call
/// commands in their process.
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

    /// Runs the command that the arguments name. Each error becomes a sentence and an exit code, which is returned.
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

/// Does what waits for files, programs or the system's resolver on a thread of its own, so that everything else goes on meanwhile.
func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    let invocation = Invocation.current
    return try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread {
            continuation.resume(with: Result { try Invocation.$current.withValue(invocation, operation: body) })
        }
    }
}

extension WallClock {
    static let system = WallClock(
        now: { .current },
        sleep: { try await Task.sleep(for: Timestamp.current.duration(to: $0), tolerance: $1) }
    )
}

extension Timestamp {
    fileprivate static var current: Timestamp { Timestamp(milliseconds: Int64(Date.now.timeIntervalSince1970 * 1000)) }
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
