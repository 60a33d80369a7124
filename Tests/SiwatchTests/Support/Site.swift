// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// A simulator, a folder with a configuration, and a backend: everything around a daemon, as real processes and files.
struct Site {
    let apple: SimulatedApple
    let folder: WatchedFolder
    let backend: Backend

    /// Sets a site up, migrated and with no daemon yet, and takes it down again whatever happens.
    static func with(listen: String = "", _ tables: [String: String] = [:], _ body: (Site) async throws -> Void) async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        let apple = try await SimulatedApple(in: folder.url)
        defer { apple.process.signal(SIGKILL) }
        try folder.configure(apple: apple, listen: listen, tables)
        let (status, output) = try await folder.run("migrate")
        guard status == 0 else { throw HarnessError("migrate: \(output)") }
        let backend = try Backend(databasePath: folder.databasePath)
        defer { try? backend.close() }
        try await body(Site(apple: apple, folder: folder, backend: backend))
    }

    /// Runs a daemon around a piece of a test, and stops it with SIGTERM.
    @discardableResult
    func daemon(environment: [String: String] = [:], _ body: (ChildProcess) async throws -> Void) async throws -> ChildProcess {
        let daemon = try await folder.startDaemon(environment: environment)
        do {
            try await body(daemon)
        } catch {
            daemon.signal(SIGKILL)
            throw error
        }
        daemon.signal(SIGTERM)
        let status = await daemon.exit()
        guard status == 0 else { throw HarnessError("siwatch exited with \(status): \(daemon.output.suffix(5))") }
        return daemon
    }

    /// Reports sign-ins and waits until they are settled.
    func settle(_ signIns: [SimulatedApple.SignIn]) async throws {
        let before = try await backend.int("SELECT COUNT(*) FROM grant_log")
        try await backend.insert(signIns)
        try await backend.until("SELECT COUNT(*) FROM grant_log", is: before + signIns.count)
    }

    /// Every byte of every file in the folder, for a search of secrets.
    func bytes() throws -> [(name: String, bytes: Data)] {
        try FileManager.default.contentsOfDirectory(at: folder.url, includingPropertiesForKeys: nil).map {
            ($0.lastPathComponent, try Data(contentsOf: $0))
        }
    }
}
