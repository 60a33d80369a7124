// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The text of a key file: keys with white space between them, and the first key seals. Lines that begin with `#` are skipped.
extension KeyRing {
    package init(parsing text: String) throws(KeyTextError) {
        var keys: [SealingKey] = []
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            for word in line.split(whereSeparator: \.isWhitespace) {
                if word.hasPrefix("#") { break }
                guard let key = SealingKey(line: word) else { throw .malformed(line: index + 1) }
                guard !keys.contains(where: { $0.id == key.id }) else { throw .repeated(line: index + 1) }
                keys.append(key)
            }
        }
        guard !keys.isEmpty else { throw .empty }
        self.init(keys)
    }

    /// The text of a new key file. It ends with a newline.
    package var text: String {
        """
        # The keys that seal the refresh tokens of siwatch. Whoever holds this file and the database can read them;
        # without this file they are lost. The first key seals, all of them open. Never keep it with the database's backups.
        \(current.line)

        """
    }
}

/// What is wrong with the text of a key file. It never holds the text.
package enum KeyTextError: Error, Equatable, Sendable {
    /// Lines count from 1.
    case malformed(line: Int)
    case repeated(line: Int)
    case empty
}

extension KeyTextError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .malformed(let line): "line \(line) is not a sealing key: siwatch-sealing-key-1:<base64 of 32 bytes>, and nothing else"
        case .repeated(let line): "line \(line) repeats a key from above"
        case .empty: "it holds no key outside of comments; # begins one, and where a line break was lost, the key behind it is part of it"
        }
    }
}
