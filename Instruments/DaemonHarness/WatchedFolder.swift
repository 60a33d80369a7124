// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Foundation

/// A folder with a siwatch.toml, a database and keys of its own, and the `siwatch` processes run on it.
package struct WatchedFolder: Sendable {
    package let url: URL

    package var databasePath: String { url.appending(path: "siwatch.sqlite").path }
    package var configurationPath: String { url.appending(path: "siwatch.toml").path }

    /// Makes a new folder below the temporary one.
    package init(named name: String = "siwatch") throws {
        url = FileManager.default.temporaryDirectory.appending(path: "\(name)-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// Writes a configuration that points at a simulator.
    ///
    /// - Parameter more: further TOML, by table, such as `["refresh": "interval = \"1s\""]`.
    package func configure(
        apple: SimulatedApple,
        clientIDs: [String] = ["com.example.app", "com.example.web"],
        listen: String = "",
        _ more: [String: String] = [:]
    ) throws {
        var tables = more
        tables["database"] = "path = \"siwatch.sqlite\"\n" + (more["database"] ?? "")
        tables["operations"] = "listen = \"\(listen)\"\n" + (more["operations"] ?? "")
        tables["apple"] = """
            token_endpoint = "\(apple.url)/auth/token"
            revocation_endpoint = "\(apple.url)/auth/revoke"
            keys_endpoint = "\(apple.url)/auth/keys"
            \(more["apple"] ?? "")
            """
        let app = """
            [[app]]
            name = "example"
            team_id = "\(SimulatedApple.teamID)"
            client_ids = [\(clientIDs.map { "\"\($0)\"" }.joined(separator: ", "))]
            [[app.key]]
            id = "\(SimulatedApple.keyID)"
            file = "\(SimulatedApple.keyFile)"
            """
        let text = app + "\n" + tables.sorted { $0.key < $1.key }.map { "[\($0.key)]\n\($0.value)\n" }.joined()
        try text.write(toFile: configurationPath, atomically: true, encoding: .utf8)
    }

    /// Starts a subcommand.
    package func start(_ arguments: String..., environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess("siwatch", arguments + ["--config", configurationPath], environment: environment)
    }

    /// Runs a subcommand to its end.
    package func run(_ arguments: String..., environment: [String: String] = [:]) async throws -> (status: Int32, output: [String]) {
        let process = try ChildProcess("siwatch", arguments + ["--config", configurationPath], environment: environment)
        let status = await process.exit()
        return (status, process.output)
    }

    /// Starts the daemon and waits until it is ready.
    package func startDaemon(environment: [String: String] = [:]) async throws -> ChildProcess {
        let daemon = try start("run", environment: environment)
        guard await daemon.line(containing: "siwatch is ready") != nil else {
            throw HarnessError("siwatch did not start: \(daemon.output.joined(separator: "\n"))")
        }
        return daemon
    }

    package func remove() {
        try? FileManager.default.removeItem(at: url)
    }
}
