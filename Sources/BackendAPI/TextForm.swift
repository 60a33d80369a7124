// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

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

    static let row = TextForm(words: "the next of an answer or the id of a change") { text in
        RowReference(text).map { $0.user == nil } ?? false
    }

    /// The name of a member or of a parameter, which may be quoted: it holds no secret.
    static let plainName = TextForm(words: "a plain name") { text in
        (1...32).contains(text.utf8.count) && text.utf8.allSatisfy { (0x61...0x7a).contains($0) || $0 == 0x5f }
    }

    static let appName = TextForm(words: "the name of an app") { (1...64).contains($0.count) }

    static let address = TextForm(words: "an e-mail address of at most 255 characters") { text in
        (1...255).contains(text.unicodeScalars.count) && text.unicodeScalars.allSatisfy { $0.value > 0x1f && $0.value != 0x7f }
    }
}

extension TextForm {
    static func mistake(_ name: String, _ range: ClosedRange<Int64>) -> String {
        let unit = range == Timestamp.legalMilliseconds ? " of milliseconds since 1970," : ""
        return "\(name) has to be a whole number\(unit) from \(range.lowerBound) to \(range.upperBound)"
    }

    /// That names are unknown; none if there are none. Quotes only those that hold no secret.
    static func mistake(_ unknown: [String], _ known: Set<String>) -> [String] {
        guard !unknown.isEmpty else { return [] }
        let names = unknown.map { plainName.matches($0) ? $0 : "a name" }.joined(separator: ", ")
        return ["unknown: \(names); known are \(known.sorted().joined(separator: ", "))"]
    }
}

extension Timestamp {
    static let legalMilliseconds = legal.lowerBound.milliseconds...legal.upperBound.milliseconds
}
