// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import TOMLKit

@testable import siwatch

final class TemporaryFolder {
    /// Without a slash at the end.
    let path: String

    /// - Parameter parent: `/tmp` for sockets, because their paths are short.
    init(in parent: URL = FileManager.default.temporaryDirectory) throws {
        path = parent.appending(path: "siwatch-\(UUID().uuidString.prefix(8))").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
    func path(_ name: String) -> String { "\(path)/\(name)" }

    func write(_ text: String, to name: String, mode: Int = 0o600) throws {
        try Data(text.utf8).write(to: URL(filePath: path(name)))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path(name))
    }
}

/// The files of the repository that these tests were built from.
enum Checkout { static let root = URL(filePath: #filePath).appending(path: "../../../..").standardized }

extension Configuration {
    /// Parses a text in this process. The text must not harm the parser.
    init(parsing text: String, from path: String, credentials: String? = nil) throws(InvalidConfiguration) {
        let table: TOMLTable
        do { table = try .parse(text) } catch { throw InvalidConfiguration(source: path, mistakes: [error]) }
        try self.init(table, from: path, credentials: credentials)
    }
}
