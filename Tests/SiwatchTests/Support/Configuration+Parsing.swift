// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

@testable import siwatch

extension Configuration {
    /// Reads a text that does its parser no harm, in this very process.
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

extension TOMLParser {
    /// One that starts the siwatch of this build: the program that runs now is that of the tests.
    static func built(processorSeconds: Int = 5) throws -> TOMLParser {
        TOMLParser(program: try ChildProcess.program("siwatch").path, processorSeconds: processorSeconds)
    }
}
