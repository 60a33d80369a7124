// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

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

    static func run(_ arguments: String..., in folder: WatchedFolder) async throws -> (status: Int32, output: [String]) {
        try await run(arguments, in: folder)
    }

    static func run(line: String, in folder: WatchedFolder) async throws -> (status: Int32, output: [String]) {
        try await run(line.split(separator: " ").map(String.init), in: folder)
    }

    static func run(_ arguments: [String], in folder: WatchedFolder) async throws -> (status: Int32, output: [String]) {
        let process = try start(arguments, in: folder)
        let status = await process.exit()
        return (status, process.output)
    }

    static func start(_ arguments: String..., in folder: WatchedFolder) throws -> ChildProcess { try start(arguments, in: folder) }

    private static func start(_ arguments: [String], in folder: WatchedFolder) throws -> ChildProcess {
        try start(program: ChildProcess.program("siwatch").path, arguments + ["--config", folder.configurationPath])
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
