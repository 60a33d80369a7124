// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

extension String {
    /// The text with every character spelled out that is invisible or that a terminal would obey. Text from outside may hold anything.
    var printable: String { escaped { $0.isPrintable ? nil : $0.spelledOut } }

    /// The same for text of several lines.
    var printableLines: String { escaped { $0.isPrintable || $0 == "\n" ? nil : $0.spelledOut } }

    /// - Parameter escape: what stands in the place of a character; nil if the character itself stands there.
    func escaped(by escape: (Unicode.Scalar) -> String?) -> String {
        unicodeScalars.reduce(into: "") { text, scalar in
            if let escape = escape(scalar) { text += escape } else { text.unicodeScalars.append(scalar) }
        }
    }

    /// Padded with spaces; on the left if `width` is negative.
    func padded(to width: Int) -> String {
        let padding = String(repeating: " ", count: max(abs(width) - count, 0))
        return width < 0 ? padding + self : self + padding
    }

    /// Quoted as one word of a shell command.
    var shellQuoted: String {
        let isPlain = utf8.allSatisfy { $0.isLetterOrDigit || "/._-+@%:,".utf8.contains($0) }
        return isPlain && !isEmpty ? self : "'\(replacing("'", with: #"'\''"#))'"
    }

    /// The absolute path that somebody means who has dragged a file here, or has written it for a shell.
    var asPastedPath: String { pastedPath(homeBehindSudo: Account.homeBehindSudo) }

    /// - Parameter home: of the user who has typed `sudo`, which itself makes root's home of `~`. A file there comes first.
    func pastedPath(homeBehindSudo home: String?) -> String {
        let bare = ["'", "\""].contains { count > 1 && hasPrefix($0) && hasSuffix($0) } ? String(dropFirst().dropLast()) : self
        if let home, bare.hasPrefix("~/") {
            let path = home + bare.dropFirst()
            if FileManager.default.fileExists(atPath: path) { return path }
        }
        return URL(filePath: NSString(string: bare).expandingTildeInPath).standardizedFileURL.path
    }

    /// The word that was probably meant: the nearest of them, at most two edits away. Nil if none is that near.
    func nearest(among words: some Sequence<String>) -> String? {
        // Two edits make any word of another one that is as short.
        let most = Swift.min(2, count / 2)
        return words.map { (word: $0, distance: distance(to: $0)) }
            .filter { $0.distance <= most }
            .min { ($0.distance, $0.word) < ($1.distance, $1.word) }?.word
    }

    /// How many characters have to be added, removed, replaced, or exchanged with their neighbour (the optimal string alignment distance).
    private func distance(to other: String) -> Int {
        let (left, right) = (Array(self), Array(other))
        guard abs(left.count - right.count) <= 2 else { return .max }
        var before: [Int] = []
        var last = Array(0...right.count)
        for (row, character) in left.enumerated() {
            var next = [row + 1]
            for (column, candidate) in right.enumerated() {
                var cost = Swift.min(last[column + 1] + 1, next[column] + 1, last[column] + (character == candidate ? 0 : 1))
                if row > 0, column > 0, character == right[column - 1], left[row - 1] == candidate {
                    cost = Swift.min(cost, before[column - 1] + 1)
                }
                next.append(cost)
            }
            (before, last) = (last, next)
        }
        return last[right.count]
    }
}

extension Unicode.Scalar {
    fileprivate var spelledOut: String { "\\u{\(String(value, radix: 16))}" }

    /// Escaped as in a JSON string: a surrogate pair if one code unit does not hold it.
    var jsonEscape: String { utf16.map { "\\u\($0.hexadecimal)" }.joined() }
}
