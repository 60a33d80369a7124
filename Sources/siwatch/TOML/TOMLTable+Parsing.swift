// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import TOMLKit

extension TOMLTable {
    /// Parses a TOML document. At some documents toml++ ends the process, so that text from outside goes through `ParserGuard`.
    /// Throws the first syntax error, with its line and column.
    static func parse(_ text: String) throws(ConfigurationMistake) -> TOMLTable {
        // The byte order mark is not part of the document, and TOML counts columns without it.
        let text = String(text.trimmingPrefix("\u{feff}"))
        try refuseTraps(in: text)
        do {
            return try TOMLTable(string: text)
        } catch let error as TOMLParseError {
            let start = error.source.begin
            throw ConfigurationMistake(
                place: .position(line: start.line, column: start.column),
                problem: missingQuote(onLine: start.line, of: text) ?? error.description.printable
            )
        } catch {
            throw ConfigurationMistake(place: .file, problem: "is not TOML")
        }
    }

    /// The mistake that people make most, which the parser tells in its own words; nil if it is another one.
    private static func missingQuote(onLine number: Int, of text: String) -> String? {
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard lines.indices.contains(number - 1),
            let line = String(decoding: lines[number - 1], as: UTF8.self).wholeMatch(of: /[ \t]*[\w.\-]+[ \t]*=[ \t]*(.*?)\r?/)?.1,
            !line.hasPrefix("\"\"\""), !line.hasPrefix("'''")
        else { return nil }
        if line.wholeMatch(of: /"(?:\\.|[^"\\])*|'[^']*/) != nil { return "the text has no closing quotation mark" }
        return line.wholeMatch(of: /[A-Za-z\/.][^"'\[{]*["']?/) != nil ? "text stands between quotation marks" : nil
    }

    /// Refuses text that TOMLKit 0.6 would misread silently, and names the place of text that would end the process.
    ///
    /// TOMLKit passes C strings, so it loses everything after a NUL, in the text or escaped in a string. Its parser, toml++, has assertions
    /// that also hold in release builds: `[[[app]]]` ends the process, as a line separator in a list does and a header of 100,000 names.
    /// Fuzzing found these, and no legal siwatch.toml holds any of them. The list is not complete, and does not need to be.
    private static func refuseTraps(in text: String) throws(ConfigurationMistake) {
        try refuse(/\0|\\u0000|\\U00000000/, in: text, "a NUL character is not allowed")
        let outline = text.outline
        try refuse(/[\u{b}\u{c}\u{85}\u{2028}\u{2029}\u{feff}]/, in: outline, "an invisible character stands here")
        try refuse(/(?m)^[^=.\n]*+(?:\.[^=.\n]*+){32}/, in: outline, "is nested too deeply")
        try refuse(/(?m)^[ \t]*+\[\[?+[ \t]*+(?![A-Za-z0-9_\-"'\]])/, in: outline, "this header does not name its table")
        try refuse(/[\[,]\s*+\}/, in: outline, "a value is expected before the brace")
        try refuse(/[0-9]{4}-[0-9]{2}-[0-9]{2}/, in: outline, "no key here takes a date; strings stand in quotes")
    }

    private static func refuse(_ pattern: Regex<Substring>, in text: String, _ problem: String) throws(ConfigurationMistake) {
        guard let match = text.firstMatch(of: pattern.matchingSemantics(.unicodeScalar)) else { return }
        let lines = text.utf8[..<match.range.lowerBound].split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        throw ConfigurationMistake(place: .position(line: lines.count, column: (lines.last?.count ?? 0) + 1), problem: problem)
    }
}

extension TOMLValue {
    var kind: String {
        switch type {
        case .int: "an integer"
        case .array: "a list"
        case .bool: "a boolean"
        case .double: "a floating-point number"
        case .dateTime: "a date-time"
        default: "a \(type)"
        }
    }
}

extension String {
    /// The TOML document with its comments blanked out and its strings turned into quotation marks. Every byte keeps its line and column.
    var outline: String {
        // A multi-line string may end with up to two quotation marks of its own.
        let pattern = /"""(?s:[^\\]|\\.)*?"{3,5}|'''(?s:.)*?'{3,5}|"(?:\\.|[^"\\\n])*+"|'[^'\n]*+'|#[^\n]*+/
        var (outline, rest) = ("", self[...])
        // Only these characters begin a match. Trying at every character took most of the time of reading a configuration.
        while let mark = rest.unicodeScalars.firstIndex(where: { $0 == "\"" || $0 == "'" || $0 == "#" }) {
            let match = rest[mark...].prefixMatch(of: pattern.matchingSemantics(.unicodeScalar))
            let end = match?.range.upperBound ?? rest.unicodeScalars.index(after: mark)
            let filler = rest.unicodeScalars[mark] == "#" ? UInt8(ascii: " ") : UInt8(ascii: "\"")
            let blank = rest[mark..<end].utf8.map { $0 == UInt8(ascii: "\n") || match == nil ? $0 : filler }
            outline += rest[..<mark] + String(decoding: blank, as: UTF8.self)
            rest = rest[end...]
        }
        return outline + rest
    }
}
