// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

@testable import siwatch

/// A command of siwatch, called in this process with streams of its own. It takes a tenth of the time of a process.
enum CommandCall {
    /// The daemon is always a process of its own.
    ///
    /// - Parameters:
    ///   - environment: added to our own.
    ///   - input: what stands on standard input.
    /// - Returns: the exit code, and the lines of both streams together.
    static func siwatch(
        _ arguments: [String],
        environment: [String: String] = [:],
        input: String = ""
    ) async throws -> (status: Int32, output: [String]) {
        if arguments.first == "run" {
            let process = try ChildProcess("siwatch", arguments, environment: environment)
            return (await process.exit(), process.output)
        }
        // Files without a name: a pipe would have to be read meanwhile.
        guard let given = tmpfile(), let said = tmpfile() else { throw HarnessError("no temporary file") }
        defer { for file in [given, said] { fclose(file) } }
        fputs(input, given)
        rewind(given)
        let invocation = Invocation(
            arguments: arguments,
            console: Console(input: fileno(given), output: fileno(said), error: fileno(said)),
            environment: Self.environment.merging(environment) { _, new in new },
            program: try ChildProcess.program("siwatch").path
        )
        // Commands wait for processes and files, and this process has few threads for all its tests.
        let status = await withTaskExecutorPreference(OwnThread()) { await invocation.run() }
        let output = FileHandle(fileDescriptor: fileno(said))
        try output.seek(toOffset: 0)
        let text = String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self)
        return (status, text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init))
    }

    /// Without the variables of libpq, as a child process of the tests gets it.
    private static let environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("PG") }
}

extension WatchedFolder {
    func siwatch(_ arguments: String..., environment: [String: String] = [:]) async throws -> (status: Int32, output: [String]) {
        try await siwatch(arguments, environment: environment)
    }

    func siwatch(_ arguments: [String], environment: [String: String] = [:]) async throws -> (status: Int32, output: [String]) {
        try await CommandCall.siwatch(arguments + ["--config", configurationPath], environment: environment)
    }

    /// Calls a command in one line, as `doctor --before-start`.
    func siwatch(line: String) async throws -> (status: Int32, output: [String]) {
        try await siwatch(line.split(separator: " ").map(String.init))
    }

    /// Calls a command in one line, and expects its exit code, and in its output all of these texts and none of the absent ones. A text
    /// between line feeds is a whole line.
    ///
    /// - Returns: its output.
    @discardableResult
    func expect(
        _ command: String,
        _ status: Int32,
        _ texts: String...,
        not absent: String...,
        at location: SourceLocation = #_sourceLocation
    ) async throws -> [String] {
        let said = try await siwatch(line: command)
        examine(said, command, status, texts, not: absent, at: location)
        return said.output
    }

    /// The same with any exit code.
    @discardableResult
    func expect(
        _ command: String,
        says texts: String...,
        not absent: String...,
        at location: SourceLocation = #_sourceLocation
    ) async throws -> [String] {
        let said = try await siwatch(line: command)
        examine(said, command, nil, texts, not: absent, at: location)
        return said.output
    }

    /// The JSON that a command prints.
    func json(_ command: String) async throws -> [String: Any] {
        let text = try await siwatch(line: command).output.joined(separator: "\n")
        return try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
    }

    /// Calls a command on this folder.
    ///
    /// - Throws: an error if the exit code is not 0.
    func succeed(_ arguments: String...) async throws {
        let (status, output) = try await siwatch(arguments)
        guard status == 0 else { throw HarnessError("siwatch ended with \(status): \(output.suffix(5).joined(separator: "\n"))") }
    }
}

/// Expects what a command has said.
///
/// - Parameter status: nil for any exit code.
func examine(
    _ said: (status: Int32, output: [String]),
    _ command: String,
    _ status: Int32?,
    _ texts: [String],
    not absent: [String] = [],
    at location: SourceLocation
) {
    let all = "\n\(said.output.joined(separator: "\n"))\n"
    if let status { #expect(said.status == status, "\(command): \(all)", sourceLocation: location) }
    for text in texts { #expect(all.contains(text), "\(command): \(all)", sourceLocation: location) }
    for text in absent { #expect(!all.contains(text), "\(command): \(all)", sourceLocation: location) }
}

extension OperationsPages {
    /// Waits until a page has all of these texts and none of the absent ones, and expects it.
    ///
    /// - Returns: the page.
    @discardableResult
    func expect(
        _ page: String,
        shows texts: String...,
        not absent: String...,
        accept: String? = nil,
        at location: SourceLocation = #_sourceLocation
    ) async throws -> String {
        let body = try await get(page, accept: accept, within: .seconds(60)) { body in
            texts.allSatisfy { body.contains($0) } && !absent.contains { body.contains($0) }
        }
        for text in texts { #expect(body.contains(text), "\(body)", sourceLocation: location) }
        for text in absent { #expect(!body.contains(text), "\(body)", sourceLocation: location) }
        return body
    }

    /// Waits until a page is this text, and expects it.
    func expect(_ page: String, is text: String, at location: SourceLocation = #_sourceLocation) async throws {
        let body = try await get(page, within: .seconds(60)) { $0 == text }
        #expect(body == text, sourceLocation: location)
    }
}
