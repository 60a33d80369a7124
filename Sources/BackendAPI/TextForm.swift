// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The text that a value may be.
struct TextForm: Sendable {
    var words: String
    var matches: @Sendable (String) -> Bool

    /// Printable ASCII without spaces.
    static func word(upTo limit: Int) -> TextForm {
        TextForm(words: "1 to \(limit) printable characters of ASCII, without spaces") { text in
            (1...limit).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
        }
    }

    static let name = word(upTo: 255)

    static let row = TextForm(words: "the next of an answer or the id of a change") { RowReference($0) != nil }

    static let appName = TextForm(words: "the name of an app") { (1...64).contains($0.count) }

    static let address = TextForm(words: "an e-mail address of at most 255 characters") { text in
        (1...255).contains(text.unicodeScalars.count) && text.unicodeScalars.allSatisfy { $0.value > 0x1f && $0.value != 0x7f }
    }
}

extension Timestamp {
    static let legalMilliseconds = legal.lowerBound.milliseconds...legal.upperBound.milliseconds
}
