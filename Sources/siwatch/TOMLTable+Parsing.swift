// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import TOMLKit

extension TOMLTable {
    /// Parses a TOML document.
    ///
    /// TOMLKit hands the text to C++ and the values back as C strings, so all that follows a NUL would be lost without a word, be it
    /// in the text or escaped in a string. So there must be none.
    ///
    /// - Throws: The first syntax error, with its line and column. The parser cannot go on after one.
    static func parsing(_ text: String) throws(ConfigurationMistake) -> TOMLTable {
        for nul in ["\0", #"\u0000"#, #"\U00000000"#] {
            if let range = text.utf8.firstRange(of: nul.utf8) {
                throw ConfigurationMistake(place: position(of: range.lowerBound, in: text), problem: "a NUL character is not allowed")
            }
        }
        do {
            return try TOMLTable(string: text)
        } catch let error as TOMLParseError {
            let start = error.source.begin
            throw ConfigurationMistake(place: .position(line: start.line, column: start.column), problem: error.description)
        } catch {
            throw ConfigurationMistake(place: .file, problem: "is not TOML")
        }
    }

    private static func position(of index: String.Index, in text: String) -> ConfigurationMistake.Place {
        let lines = text.utf8[..<index].split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        return .position(line: lines.count, column: (lines.last?.count ?? 0) + 1)
    }
}
