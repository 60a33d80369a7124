// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// docs/schema.md, the page for writers of backends.
enum SchemaPage {
    static let text = try! String(
        contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../docs/schema.md").standardized,
        encoding: .utf8
    )

    /// Its blocks of code in a language.
    static func blocks(of language: String) -> [String] {
        text.components(separatedBy: "\n```\(language)\n").dropFirst().compactMap { $0.components(separatedBy: "\n```\n").first }
    }
}
