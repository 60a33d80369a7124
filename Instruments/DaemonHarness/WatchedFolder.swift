// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Foundation

/// A folder with its own siwatch.toml, database and keys, for `siwatch` processes to run on.
package struct WatchedFolder: Sendable {
    package let url: URL
    /// The siwatch that works on it; nil for the one beside the running program.
    private let program: URL?

    package var databasePath: String { url.appending(path: "siwatch.sqlite").path }
    package var configurationPath: String { url.appending(path: "siwatch.toml").path }

    package init(
        named name: String = "siwatch",
        in parent: URL = FileManager.default.temporaryDirectory,
        program: URL? = nil
    ) throws {
        url = parent.appending(path: "\(name)-\(UUID().uuidString)")
        self.program = program
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// Writes a configuration that points at a simulator.
    ///
    /// - Parameter more: further TOML, by table, such as `["refresh": "interval = \"1s\""]`.
    package func configure(
        apple: SimulatedApple,
        on server: ServerSchema? = nil,
        clientIDs: [String] = SimulatedApple.clientIDs,
        listen: String = "",
        _ more: [String: String] = [:]
    ) throws {
        var tables = more
        let database = server.map { "url = \"\($0.url)\"\nschema = \"\($0.name)\"\n" } ?? "path = \"siwatch.sqlite\"\n"
        tables["database"] = database + (more["database"] ?? "")
        let operations = more["operations"] ?? ""
        let socket = operations.contains("socket") ? "" : "socket = \"\"\n"
        tables["operations"] = "listen = \"\(listen)\"\n\(socket)\(operations)"
        let text = SiwatchConfiguration.text(apple: apple.url, clientIDs: clientIDs, tables)
        try "\(text)\n".write(toFile: configurationPath, atomically: true, encoding: .utf8)
    }

    /// Replaces one text of the configuration, which has to contain it, by another.
    package func edit(_ old: String, _ new: String) throws {
        let text = try String(contentsOfFile: configurationPath, encoding: .utf8)
        guard text.contains(old) else { throw HarnessError("\(configurationPath) does not contain \(old)") }
        try text.replacing(old, with: new).write(toFile: configurationPath, atomically: true, encoding: .utf8)
    }

    /// Writes a line into a file that nobody else may read.
    package func writeSecret(_ text: String, to name: String) throws {
        let file = url.appending(path: name)
        try Data("\(text)\n".utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }

    /// A folder with the same configuration and keys, for another siwatch on the same server.
    package func copy() throws -> WatchedFolder {
        let copy = try WatchedFolder(program: program)
        for file in try FileManager.default.contentsOfDirectory(at: url, includingPropertiesForKeys: nil) {
            try FileManager.default.copyItem(at: file, to: copy.url.appending(path: file.lastPathComponent))
        }
        return copy
    }

    package func start(_ arguments: String..., environment: [String: String] = [:]) throws -> ChildProcess {
        try start(arguments, environment)
    }

    package func run(_ arguments: String..., environment: [String: String] = [:]) async throws -> (status: Int32, output: [String]) {
        let process = try start(arguments, environment)
        let status = await process.exit()
        return (status, process.output)
    }

    /// Runs a subcommand to its end, and kills it if the task is cancelled. Its exit code has to be 0.
    package func complete(_ arguments: String...) async throws { try await finish(start(arguments, [:])) }

    private func finish(_ process: ChildProcess) async throws {
        let status = try await process.end()
        guard status == 0 else { throw HarnessError("siwatch ended with \(status): \(process.output.suffix(5).joined(separator: "\n"))") }
    }

    private func start(_ arguments: [String], _ environment: [String: String]) throws -> ChildProcess {
        let program = try program ?? ChildProcess.program("siwatch")
        return try ChildProcess(program, arguments + ["--config", configurationPath], environment: environment)
    }

    package func startDaemon(environment: [String: String] = [:]) async throws -> ChildProcess {
        let daemon = try start("run", environment: environment)
        try await untilReady(daemon)
        return daemon
    }

    private func untilReady(_ daemon: ChildProcess) async throws {
        guard await daemon.line(containing: "siwatch is ready") != nil else {
            throw HarnessError("siwatch did not start: \(daemon.output.joined(separator: "\n"))")
        }
    }

    /// Runs the daemon while `body` runs, and ends it with SIGTERM.
    ///
    /// - Parameter signal: how it ends if `body` throws or is cancelled.
    package func withDaemon<Result>(
        environment: [String: String] = [:],
        interruptedBy signal: Int32 = SIGKILL,
        _ body: (ChildProcess) async throws -> Result
    ) async throws -> Result {
        let daemon = try start("run", environment: environment)
        do {
            let result = try await withTaskCancellationHandler {
                try await untilReady(daemon)
                return try await body(daemon)
            } onCancel: {
                daemon.signal(signal)
            }
            daemon.signal(SIGTERM)
            try await finish(daemon)
            return result
        } catch {
            daemon.signal(signal)
            await daemon.exit()
            throw error
        }
    }

    /// The given texts, of eight bytes at least, that each file of the folder holds in clear.
    package func files(with texts: [String]) throws -> [String: Set<String>] {
        func beginning(_ bytes: UnsafeRawBufferPointer) -> UInt64 { bytes.loadUnaligned(as: UInt64.self) }
        // One pass over each file for all texts: compare a text only where its first eight bytes match.
        let beginnings = Dictionary(grouping: Set(texts)) { Array($0.utf8).withUnsafeBytes(beginning) }
        let files = try FileManager.default.contentsOfDirectory(at: url, includingPropertiesForKeys: nil)
        return try Dictionary(
            uniqueKeysWithValues: files.map { file in
                var found: Set<String> = []
                try Data(contentsOf: file).withUnsafeBytes { bytes in
                    for start in bytes.indices.dropLast(MemoryLayout<UInt64>.size - 1) {
                        guard let candidates = beginnings[beginning(UnsafeRawBufferPointer(rebasing: bytes[start...]))] else { continue }
                        found.formUnion(candidates.filter { bytes[start...].starts(with: $0.utf8) })
                    }
                }
                return (file.lastPathComponent, found)
            }
        )
    }

    /// The files that hold a token or a code of the simulated Apple, recognized by its shape.
    package func filesWithTokens() throws -> [String] {
        let files = try FileManager.default.contentsOfDirectory(at: url, includingPropertiesForKeys: nil)
        return try files.filter { try Data(contentsOf: $0).holdsSimulatedToken }.map(\.lastPathComponent)
    }

    package func remove() { try? FileManager.default.removeItem(at: url) }
}

extension ContiguousBytes {
    /// Whether it holds a token or a code in the simulated Apple's shape: a letter, 32 hexadecimal digits, and `.0.`.
    package var holdsSimulatedToken: Bool {
        withUnsafeBytes { bytes in
            bytes.indices.dropFirst(33).dropLast(2).contains { end in
                bytes[end] == UInt8(ascii: ".") && bytes[end + 1] == UInt8(ascii: "0") && bytes[end + 2] == UInt8(ascii: ".")
                    && "acr".utf8.contains(bytes[end - 33]) && bytes[(end - 32)..<end].allSatisfy { "0123456789abcdef".utf8.contains($0) }
            }
        }
    }
}

/// What `siwatch migrate` makes: the database, its lock file and the sealing key. Made once for this process, and copied for each folder.
actor MigratedFiles {
    static let shared = MigratedFiles()

    private typealias File = (bytes: Data, mode: Int)

    private var making: Task<[String: File], any Error>?

    /// Copies them into a folder with a configuration that changes nothing of them.
    func copy(to folder: WatchedFolder) async throws {
        // Not a child task, because a test that is cancelled would take it along from all others.
        let making = self.making ?? Task { try await Self.make(in: folder) }
        self.making = making
        let files: [String: File]
        do {
            files = try await making.value
        } catch {
            self.making = nil
            throw error
        }
        for (name, file) in files {
            let path = folder.url.appending(path: name).path
            guard !FileManager.default.fileExists(atPath: path) else { continue }
            guard FileManager.default.createFile(atPath: path, contents: file.bytes, attributes: [.posixPermissions: file.mode]) else {
                throw HarnessError("\(path) cannot be written")
            }
        }
    }

    private static func make(in folder: WatchedFolder) async throws -> [String: File] {
        try await folder.complete("migrate")
        return try ["siwatch.sqlite", "siwatch.sqlite.lock", "siwatch.key"].reduce(into: [:]) { files, name in
            let url = folder.url.appending(path: name)
            let mode = try FileManager.default.attributesOfItem(atPath: url.path)[.posixPermissions] as? Int
            files[name] = (try Data(contentsOf: url), mode ?? 0)
        }
    }
}
