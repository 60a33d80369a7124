// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

struct HostCommand {
    var words: [String]

    /// This program once more, as another user if that is not the caller.
    static func siwatch(_ arguments: [String], as user: String) -> HostCommand {
        let words = [Invocation.current.program] + arguments
        return HostCommand(words: user == Account.user ? words : ["runuser", "-u", user, "--"] + words)
    }

    var text: String { words.map(\.shellQuoted).joined(separator: " ") }

    /// - Returns: the exit code, and all that it printed.
    func run() throws(CommandFailure) -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = words
        var environment = Invocation.current.environment
        // Those of the administrator are not in everybody's path.
        environment["PATH"] = (environment["PATH"].map { "\($0):" } ?? "") + "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        process.environment = environment
        let pipe = Pipe()
        process.standardInput = FileHandle.nullDevice
        (process.standardOutput, process.standardError) = (pipe, pipe)
        do {
            try process.run()
            let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            // siwatch's own name stands before what this command says.
            let lines = String(decoding: output, as: UTF8.self).split(separator: "\n").map { $0.trimmingPrefix("siwatch: ") }
            return (process.terminationStatus, lines.joined(separator: "\n"))
        } catch {
            throw .failed("\(text) cannot be run: \(error)")
        }
    }

    /// - Throws: what it printed, if its exit code is not 0.
    func succeed() throws(CommandFailure) -> String {
        let (status, output) = try run()
        guard status == 0 else { throw .failed("\(text): \(output.isEmpty ? "exit code \(status)" : output)") }
        return output
    }

    /// Why siwatch would not start, as `doctor` says; nil if it would, or if it will some day. A start brings old tables up to date.
    static func obstacleToStart(with configuration: String, as user: String) -> String? {
        let check = siwatch(["doctor", "--before-start", "--config", configuration], as: user)
        guard let (status, output) = try? check.run(), ![0, 69].contains(status) else { return nil }
        let mistakes = output.split(separator: "\n").filter { !$0.hasSuffix("siwatch migrate brings it up to date") }
        if output.isEmpty { return "exit code \(status)" }
        return mistakes.isEmpty ? nil : mistakes.joined(separator: "; ").printable
    }
}
