// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Logging

/// The three streams of a command.
struct Console: Sendable {
    var input = STDIN_FILENO
    var output = STDOUT_FILENO
    var error = STDERR_FILENO

    static let standard = Console()

    /// Whether somebody can read a question and answer it.
    var hasPerson: Bool { isatty(input) == 1 && isatty(error) == 1 }

    /// Writes a text as it is. Throws if that fails, because `print` would lose the text silently.
    func write(_ text: String) throws(CommandFailure) {
        guard Self.write(text, to: output) else { throw .failed("the output cannot be written: \(systemError())") }
    }

    /// Writes a text to the stream of errors, where a full disk or a closed pipe loses it.
    func writeError(_ text: String) {
        _ = Self.write(text, to: error)
    }

    /// - Returns: whether all is written. `errno` has the reason if it is not.
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

    /// Opens a file of this name for reading, or is standard input where the name is a hyphen.
    ///
    /// - Returns: nil if it cannot be opened, with the reason in `errno`.
    func open(_ path: String) -> FileHandle? {
        let descriptor = path == "-" ? input : Foundation.open(path, O_RDONLY | O_CLOEXEC)
        return descriptor < 0 ? nil : FileHandle(fileDescriptor: descriptor, closeOnDealloc: descriptor != input)
    }
}

/// Writes to standard output, and nothing that a terminal would obey.
func printOutput(_ text: String) throws(CommandFailure) {
    try Invocation.current.console.write(text.printableLines + "\n")
}

/// Writes a line to standard error, and nothing that a terminal would obey. A full disk or a stalled reader loses the line, but neither ends the program nor delays its end.
///
/// - Parameter level: for `journalctl -p`, if standard error is the journal.
func printError(_ line: String, at level: Logger.Level = .error) {
    let console = Invocation.current.console
    var place = pollfd(fd: console.error, events: Int16(POLLOUT), revents: 0)
    guard poll(&place, 1, 1000) != 0 else { return }
    let priority = LogOutput.isJournal(console.error) ? "<\(level.priority)>" : ""
    let lines = line.printableLines.split(separator: "\n", omittingEmptySubsequences: false).map { "\(priority)\($0)\n" }
    console.writeError(lines.joined())
}
