// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The text of a key file: keys with white space between them, and the first key seals. `#` begins a comment, up to the end of the line. A
/// change of a key keeps everything else, line ends and a byte order mark too.
package struct KeyFileText: Sendable {
    package private(set) var text: String
    package private(set) var ring: KeyRing

    private static let byteOrderMark = "\u{feff}"

    package init(_ text: String) throws(KeyTextError) {
        self.text = text
        ring = try KeyRing(parsing: String(text.trimmingPrefix(Self.byteOrderMark)))
    }

    struct Word {
        var text: Substring
        var line: Substring
        /// Lines count from 1.
        var number: Int
    }

    static func words(in text: String) -> [Word] {
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        return lines.enumerated().flatMap { index, line in
            line.split(whereSeparator: \.isWhitespace).prefix { !$0.hasPrefix("#") }.map { Word(text: $0, line: line, number: index + 1) }
        }
    }

    /// Puts a new ring's key into a line of its own above the others, so that it seals.
    package mutating func add(_ new: KeyRing) throws(KeyTextError) {
        let end = text.first(where: \.isNewline) ?? "\n"
        change { $0.insert(contentsOf: "\(new.line)\(end)", at: Self.words(in: $0)[0].line.startIndex) }
        self = try KeyFileText(text)
    }

    /// Takes out a key, and its line if nothing else stands there. Throws `empty` if it is the only key.
    package mutating func remove(_ keyID: String) throws(KeyTextError) {
        change { text in
            guard let word = Self.words(in: text).first(where: { SealingKey(line: $0.text)?.id.hexadecimal == keyID }) else { return }
            let isAlone = word.line.split(whereSeparator: \.isWhitespace).count == 1
            var range = isAlone ? word.line.startIndex..<word.line.endIndex : word.text.startIndex..<word.text.endIndex
            let next = range.upperBound
            if next < text.endIndex, isAlone || !text[next].isNewline { range = range.lowerBound..<text.index(after: next) }
            text.removeSubrange(range)
        }
        self = try KeyFileText(text)
    }

    /// Edits the text without its byte order mark.
    private mutating func change(_ body: (inout String) -> Void) {
        let mark = text.hasPrefix(Self.byteOrderMark) ? Self.byteOrderMark : ""
        var rest = String(text.trimmingPrefix(Self.byteOrderMark))
        body(&rest)
        text = mark + rest
    }
}
