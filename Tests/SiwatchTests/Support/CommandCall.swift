// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

@testable import siwatch

/// A command of siwatch, called in this process with streams of its own. It takes a tenth of the time of a process.
enum CommandCall {
    /// The daemon is always a process of its own. Nothing stands on standard input.
    ///
    /// - Returns: the exit code, and the lines of both streams together.
    static func siwatch(_ arguments: [String]) async throws -> (status: Int32, output: [String]) {
        if arguments.first == "run" {
            let process = try ChildProcess("siwatch", arguments)
            return (await process.exit(), process.output)
        }
        // Files without a name: a pipe would have to be read meanwhile.
        guard let given = tmpfile(), let said = tmpfile() else { throw HarnessError("no temporary file") }
        defer { for file in [given, said] { fclose(file) } }
        let invocation = Invocation(
            arguments: arguments,
            console: Console(input: fileno(given), output: fileno(said), error: fileno(said)),
            environment: environment,
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
    func siwatch(_ arguments: String...) async throws -> (status: Int32, output: [String]) { try await siwatch(arguments) }

    func siwatch(_ arguments: [String]) async throws -> (status: Int32, output: [String]) {
        try await CommandCall.siwatch(arguments + ["--config", configurationPath])
    }

    /// Calls a command in one line, as `doctor --before-start`.
    func siwatch(line: String) async throws -> (status: Int32, output: [String]) {
        try await siwatch(line.split(separator: " ").map(String.init))
    }

    /// Calls a command in one line, and expects its exit code, and in its output all of these texts and none of the absent ones. A text
    /// between line feeds is a whole line.
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

    func path(_ name: String) -> String { url.appending(path: name).path }

    func mode(of name: String) throws -> Int? { try FileManager.default.attributesOfItem(atPath: path(name))[.posixPermissions] as? Int }

    /// Writes a file that only its user may read, if the mode says nothing else.
    func write(_ text: String, to name: String, mode: Int = 0o600) throws {
        try Data(text.utf8).write(to: url.appending(path: name), options: .atomic)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path(name))
    }

    /// Writes the same configuration with another database.
    ///
    /// - Returns: its path.
    func configuration(of database: String) throws -> String {
        let text = try String(contentsOfFile: configurationPath, encoding: .utf8)
        try write(text.replacing("siwatch.sqlite", with: database), to: "other.toml")
        return path("other.toml")
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

extension ChildProcess {
    /// Starts a program by its name on the `PATH`, with its arguments.
    static func found(_ words: [String], environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess(URL(filePath: "/usr/bin/env"), words, environment: environment)
    }

    /// Starts a script of a shell, whose `$0`, `$1` and so on are the words.
    static func shell(_ script: String, _ words: String..., environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess(URL(filePath: "/bin/sh"), ["-c", script] + words, environment: environment)
    }

    /// Ends a daemon by a signal, and expects that it dies of it, or that it ends in order by SIGTERM.
    func end(by signal: Int32, at location: SourceLocation = #_sourceLocation) async {
        self.signal(signal)
        let status = await exit()
        #expect(status == (signal == SIGTERM ? 0 : 128 + signal), "\(output.suffix(5))", sourceLocation: location)
    }
}

extension Backend {
    /// Expects how many rows there are of each kind: of a table, and of a condition where it names one.
    func expect(_ counts: KeyValuePairs<String, Int>, at location: SourceLocation = #_sourceLocation) async throws {
        for (rows, count) in counts {
            #expect(try await int("SELECT COUNT(*) FROM \(rows)") == count, "\(rows)", sourceLocation: location)
        }
    }

    /// Waits until there are so many rows of each kind.
    func until(_ counts: KeyValuePairs<String, Int>) async throws {
        for (rows, count) in counts { try await until("SELECT COUNT(*) FROM \(rows)", is: count) }
    }
}

/// Expects what a command has said, with any exit code if the status is nil.
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
