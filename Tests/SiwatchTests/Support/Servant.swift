// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// A user that file modes stop: `nobody` if the tests run as root, else the tests' own user.
enum Servant {
    static let isRoot = geteuid() == 0
    private static let nobody = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    static var user: UInt32 { isRoot ? 65_534 : geteuid() }

    /// Whether that user can reach the program.
    static let canBeRun: Bool = {
        guard isRoot else { return true }
        guard FileManager.default.fileExists(atPath: nobody[0]), let program = try? ChildProcess.program("siwatch").path else {
            return false
        }
        return succeeds(nobody + ["/bin/sh", "-c", "test -x \(program) && test -x \(FileManager.default.temporaryDirectory.path)"])
    }()

    /// Whether the tests may mount a folder in a namespace of their own.
    static let canMount = isRoot && succeeds(["/usr/bin/unshare", "--mount", "/bin/sh", "-c", "mount --bind /tmp /tmp"])

    static func take(over folder: WatchedFolder) throws {
        guard isRoot else { return }
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.url.path).map { folder.url.appending(path: $0).path }
        for path in names + [folder.url.path] where chown(path, 65_534, 65_534) != 0 { throw HarnessError("chown \(path)") }
    }

    static func lose(_ path: String) throws {
        guard !isRoot || chown(path, 0, 0) == 0, chmod(path, path.hasSuffix(".sqlite") ? 0o444 : 0o555) == 0 else {
            throw HarnessError("chown and chmod \(path)")
        }
    }

    /// Runs a command in one line, and expects its exit code, and in its output all of these texts and none of the absent ones.
    @discardableResult
    static func expect(
        _ command: String,
        in folder: WatchedFolder,
        _ status: Int32,
        _ texts: String...,
        not absent: String...,
        at location: SourceLocation = #_sourceLocation
    ) async throws -> [String] {
        let process = try start(command, in: folder)
        examine((await process.exit(), process.output), command, status, texts, not: absent, at: location)
        return process.output
    }

    static func start(_ command: String, in folder: WatchedFolder) throws -> ChildProcess {
        let line = try line(command, in: folder)
        return try start(program: line[0], Array(line.dropFirst()))
    }

    /// Starts a command in a namespace of its own, after shell commands that mount what `$0`, a path, is to be.
    ///
    /// - Parameter program: becomes another user, and then the command.
    static func start(
        _ command: String,
        in folder: WatchedFolder,
        by program: String = "",
        mounting commands: String,
        at path: String
    ) throws -> ChildProcess {
        let script = "\(commands)\nexec \(program) \"$@\""
        let line = try line(command, in: folder)
        return try ChildProcess(URL(filePath: "/usr/bin/unshare"), ["--mount", "/bin/sh", "-ec", script, path] + line)
    }

    private static func line(_ command: String, in folder: WatchedFolder) throws -> [String] {
        let program = try ChildProcess.program("siwatch").path
        return [program] + command.split(separator: " ").map(String.init) + ["--config", folder.configurationPath]
    }

    static func start(program: String, _ arguments: [String]) throws -> ChildProcess {
        let line = (isRoot ? nobody : []) + [program] + arguments
        return try ChildProcess(URL(filePath: line[0]), Array(line.dropFirst()))
    }

    private static func succeeds(_ line: [String]) -> Bool {
        var identifier = pid_t()
        var arguments = line.map { strdup($0) } + [nil]
        defer { for text in arguments { free(text) } }
        guard posix_spawn(&identifier, line[0], nil, nil, &arguments, nil) == 0 else { return false }
        var status: Int32 = 0
        while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
        return status == 0
    }
}
