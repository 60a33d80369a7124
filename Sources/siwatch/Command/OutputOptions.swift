// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation
import Logging

struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, for programs.") var json = false

    /// Prints a report as text, or as JSON with the number of its form, `schema`.
    ///
    /// Swift 6.3.1 crashes in a release build where this is inlined into an asynchronous `run`.
    @inline(never)
    func print(_ report: some Encodable, _ text: @autoclosure () -> String) throws {
        if json { try printJSON(report) } else { try printOutput(text()) }
    }
}

/// Prints a report as JSON, with the number of its form.
func printJSON(_ report: some Encodable) throws {
    try printOutput(json(of: report))
}

/// A report as JSON, with the number of its form, and nothing that a terminal would obey.
func json(of report: some Encodable) throws -> String { try Versioned(report).json() }

/// A report with the number of its form. Within one `schema`, members are added but never changed.
private struct Versioned<Report: Encodable>: Encodable {
    private let report: Report

    private enum CodingKeys: CodingKey {
        case schema
    }

    init(_ report: Report) {
        self.report = report
    }

    func encode(to encoder: any Encoder) throws {
        try report.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(1, forKey: .schema)
    }

    /// Escapes characters that are legal in JSON but control a terminal. The encoder leaves them alone.
    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let text = String(decoding: try encoder.encode(self), as: UTF8.self)
        return text.unicodeScalars.reduce(into: "") { json, scalar in
            if scalar == "\n" || scalar.isPrintable { json.unicodeScalars.append(scalar) } else { json += scalar.jsonEscape }
        }
    }
}

/// Writes to standard output, and nothing that a terminal would obey. Throws if that fails, because `print` would lose the text silently.
func printOutput(_ text: String) throws(CommandFailure) {
    var bytes = Array((text.printableLines + "\n").utf8)[...]
    while !bytes.isEmpty {
        let count = bytes.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
        if count < 0 {
            if errno == EINTR { continue }
            throw .failed("the output cannot be written: \(systemError())")
        }
        bytes = bytes.dropFirst(count)
    }
}

/// Writes a line to standard error, and nothing that a terminal would obey. A full disk or a stalled reader loses the line, but neither ends the program nor delays its end.
///
/// - Parameter level: for `journalctl -p`, if standard error is the journal.
func printError(_ line: String, at level: Logger.Level = .error) {
    var place = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
    guard poll(&place, 1, 1000) != 0 else { return }
    let priority = LogOutput.isJournal(STDERR_FILENO) ? "<\(level.priority)>" : ""
    let lines = line.printableLines.split(separator: "\n", omittingEmptySubsequences: false).map { "\(priority)\($0)\n" }
    try? FileHandle.standardError.write(contentsOf: Data(lines.joined().utf8))
}
