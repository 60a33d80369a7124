// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

@testable import siwatch

extension Configuration {
    /// Parses a text in this process. The text must not harm the parser.
    init(parsing text: String, from path: String, credentials: String? = nil) throws(InvalidConfiguration) {
        let table: ConfigurationTable
        do {
            table = try ConfigurationTable(parsing: text)
        } catch {
            throw InvalidConfiguration(source: path, mistakes: [error])
        }
        try self.init(table, from: path, credentials: credentials)
    }
}
