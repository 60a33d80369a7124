// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// What `siwatch migrate` makes in a folder: the database and the sealing key. It is made once for this process, and copied for each folder.
actor MigratedFiles {
    static let shared = MigratedFiles()

    private static let modes = ["siwatch.sqlite": 0o660, "siwatch.key": 0o600]
    private var making: Task<[String: Data], any Error>?

    /// Copies them into a folder with a configuration that changes nothing of them.
    func copy(to folder: WatchedFolder) async throws {
        // Not a child task, because a test that is cancelled would take it along from all others.
        let making = self.making ?? Task { try await Self.make(in: folder) }
        self.making = making
        for (name, bytes) in try await making.value {
            let path = folder.url.appending(path: name).path
            let attributes = [FileAttributeKey.posixPermissions: Self.modes[name] ?? 0o600]
            guard !FileManager.default.fileExists(atPath: path) else { continue }
            guard FileManager.default.createFile(atPath: path, contents: bytes, attributes: attributes) else {
                throw HarnessError("\(path) cannot be written")
            }
        }
    }

    private static func make(in folder: WatchedFolder) async throws -> [String: Data] {
        try await folder.complete("migrate")
        return try modes.keys.reduce(into: [:]) { files, name in
            files[name] = try Data(contentsOf: folder.url.appending(path: name))
        }
    }
}
