// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What `siwatch migrate` makes in a folder: the database, its lock file and the sealing key. They are made once for this process, and
/// copied for each folder.
actor MigratedFiles {
    static let shared = MigratedFiles()

    private struct File {
        var bytes: Data
        var mode: Int
    }

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
            files[name] = File(bytes: try Data(contentsOf: url), mode: mode ?? 0)
        }
    }
}
