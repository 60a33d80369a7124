// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Logging

struct Console: Sendable {
    var input = STDIN_FILENO
    var output = STDOUT_FILENO
    var error = STDERR_FILENO

    static let standard = Console()

    /// Whether somebody can read a question and answer it.
    var hasPerson: Bool { isatty(input) == 1 && isatty(error) == 1 }

    /// Writes a text as it is. `print` would lose it silently.
    func write(_ text: String) throws(CommandFailure) {
        guard Self.write(text, to: output) else { throw .failed("the output cannot be written: \(systemError())") }
    }

    /// Writes a text to the stream of errors, where a full disk or a closed pipe loses it.
    func writeError(_ text: String) { _ = Self.write(text, to: error) }

    private static func write(_ text: String, to descriptor: Int32) -> Bool {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            bytes = bytes.dropFirst(count)
        }
        return true
    }

    /// The next line of a person's answers; nil at the end of the input. It reads no byte too many, because an import may follow.
    func readLine() -> String? {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while true {
            let count = read(input, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return line.isEmpty ? nil : String(decoding: line, as: UTF8.self) }
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
    }

    /// A file for reading, or standard input where the name is a hyphen. Nil if it cannot be opened, with the reason in `errno`.
    func open(_ path: String) -> FileHandle? {
        let descriptor = path == "-" ? input : Foundation.open(path, O_RDONLY | O_CLOEXEC)
        return descriptor < 0 ? nil : FileHandle(fileDescriptor: descriptor, closeOnDealloc: descriptor != input)
    }
}

/// Writes to standard output, and nothing that a terminal would obey.
func printOutput(_ text: String) throws(CommandFailure) {
    try Invocation.current.console.write(text.printableLines + "\n")
}

/// Writes a line to standard error, and nothing that a terminal would obey. A full disk or a stalled reader loses the line. The level is for
/// `journalctl -p`.
func printError(_ line: String, at level: Logger.Level = .error) {
    let console = Invocation.current.console
    var place = pollfd(fd: console.error, events: Int16(POLLOUT), revents: 0)
    guard poll(&place, 1, 1000) != 0 else { return }
    let priority = LogOutput.isJournal(console.error) ? "<\(level.priority)>" : ""
    let lines = line.printableLines.split(separator: "\n", omittingEmptySubsequences: false).map { "\(priority)\($0)\n" }
    console.writeError(lines.joined())
}

/// The person in front of the command.
enum Terminal {
    /// Asks for a yes. Everything else is a no; nil if nobody can be asked.
    static func confirms(_ question: String) -> Bool? {
        let console = Invocation.current.console
        guard console.hasPerson else { return nil }
        console.writeError("\(question) [y/N] ")
        return ["y", "yes"].contains(console.readLine()?.lowercased() ?? "")
    }

    /// - Parameter end: what is so without a yes.
    static func requireYes(_ question: String, orElse end: String) throws(CommandFailure) {
        guard let answer = confirms(question) else { throw .wrongUsage("\(end); repeat the command with --yes") }
        guard answer else { throw .wrongUsage("not confirmed; \(end)") }
    }

    /// Asks until an answer is good, or the input ends.
    ///
    /// - Parameters:
    ///   - proposal: the answer of an empty line; nil if the question needs one.
    ///   - read: throws why an answer is none.
    static func ask<Answer>(
        _ question: String,
        proposal: String? = nil,
        _ read: (String) throws(CommandFailure) -> Answer
    ) throws(CommandFailure) -> Answer {
        let console = Invocation.current.console
        while true {
            let suffix = proposal.map { " [\($0.isEmpty ? "none" : $0.printable)]" } ?? ""
            console.writeError("\(question)\(suffix): ")
            guard let line = console.readLine() else { throw .wrongUsage("the answers ended early; nothing was changed") }
            let text = line.trimmingCharacters(in: .whitespaces)
            guard let answer = text.isEmpty ? proposal : text else { continue }
            do {
                return try read(answer)
            } catch {
                for message in error.messages { printError("  \(message)") }
            }
        }
    }
}
