// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

/// Takes out of a sentence what names a user, a host, a file or something that an operator named.
struct Redaction {
    /// The longest first, because one may hold another.
    private let names: [String]
    private let keys: Set<String>

    /// A shorter name says nothing, and words of siwatch hold it.
    private static let shortestName = 4

    init(of configuration: Configuration, hiding others: Set<String>) {
        keys = Set(configuration.values.keys.flatMap { [$0, $0.replacing(/\[[0-9]+\]/, with: "")] })
        names = configuration.undisclosed.union(others).filter { $0.count >= Self.shortestName }.sorted { ($1.count, $0) < ($0.count, $1) }
    }

    func of(_ sentence: String) -> String {
        let unquoted = sentence.printable.replacing(/"[^"]*"/, with: "…")
        let unnamed = names.reduce(unquoted) { $0.replacing($1, with: "…") }
        return unnamed.split(separator: " ", omittingEmptySubsequences: false).map(shown).joined(separator: " ")
    }

    private func shown(_ word: Substring) -> String {
        let core = word.trimmingCharacters(in: CharacterSet(charactersIn: "(),;:.'"))
        return isAddress(core) ? String(word).replacing(core, with: "…") : String(word)
    }

    /// Whether a word looks like a path, a URL, an address of a host or of mail, a client id or a `sub`.
    private func isAddress(_ word: String) -> Bool {
        if word.contains("@") || word.contains("/") || word.contains("::") { return true }
        guard word.contains("."), !keys.contains(word), Timestamp(argument: word) == nil else { return false }
        return word.contains { $0.isLetter } || word.count { $0 == "." } > 1
    }
}

extension Configuration {
    /// Every key, with its value if that is a number, a duration, a flag or the default; otherwise whether it is set.
    var disclosed: [(key: String, value: String)] {
        let defaults = Configuration().values
        return values.sorted { $0.key < $1.key }.map { key, value in
            (key, value == defaults[key] || value.isFigure || key.hasPrefix("log.") ? value : "set")
        }
    }

    /// The texts of all other values.
    fileprivate var undisclosed: Set<String> {
        let hidden = Set(disclosed.filter { $0.value == "set" }.map(\.key))
        return values.filter { hidden.contains($0.key) }.reduce(into: []) { names, setting in
            let quoted = setting.value.matches(of: /"((?:\\.|[^"\\])*)"/).map { String($0.1) }
            names.formUnion(quoted.isEmpty ? [setting.value.replacing("Optional(", with: "").replacing(")", with: "")] : quoted)
        }
    }
}

extension String {
    /// Whether it is the text of a number, a duration, a flag or of nothing.
    fileprivate var isFigure: Bool { wholeMatch(of: /(?:Optional\()?(?:-?[0-9]+(?:\.[0-9]+)?(?: seconds)?|true|false|nil|\[\])\)?/) != nil }
}
