// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// A folder that its deinit removes.
final class TemporaryFolder {
    /// Without a slash at the end.
    let path: String

    /// - Parameter parent: `/tmp` for sockets, because their paths are short.
    init(in parent: URL = FileManager.default.temporaryDirectory) throws {
        path = parent.appending(path: "siwatch-\(UUID().uuidString.prefix(8))").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func path(_ name: String) -> String {
        "\(path)/\(name)"
    }

    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path(name)))
    }
}
