// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// `apple-simulator --print-config` prints a valid siwatch.toml.
struct SimulatorConfigurationTests {
    /// The file is in another folder than the simulator's key, whose path was relative to the simulator.
    @Test func theConfigurationIsAcceptedAsItIs() async throws {
        let folder = try WatchedFolder(named: "a \"folder\"")
        defer { folder.remove() }
        let elsewhere = folder.url.appending(path: "elsewhere")
        try FileManager.default.createDirectory(at: elsewhere, withIntermediateDirectories: false)
        let apple = try ChildProcess(
            URL(filePath: "/bin/sh"),
            [
                "-c", #"cd "$1" && exec "$0" --print-config --port 0 --key-file key.p8 --log-level critical"#,
                try ChildProcess.program("apple-simulator").path, elsewhere.path,
            ]
        )
        defer { apple.signal(SIGKILL) }
        #expect(await apple.line(containing: "keys_endpoint") != nil, "\(apple.output)")
        let text = apple.output.map { "\($0)\n" }.joined()
        try text.write(toFile: folder.configurationPath, atomically: true, encoding: .utf8)

        let checked = try await folder.siwatch("doctor", "--before-start")
        #expect(checked.status == 0, "\(checked.output) of \(text)")
        #expect(try await folder.siwatch("migrate").status == 0)
        #expect(try await folder.siwatch("doctor", "--before-start").output.contains { $0.contains("siwatch.sqlite: usable") })
        let database = elsewhere.appending(path: "siwatch.sqlite").path
        #expect(FileManager.default.fileExists(atPath: database))
    }
}
