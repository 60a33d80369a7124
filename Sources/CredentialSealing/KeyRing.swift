// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto

/// The sealing keys. The first key seals, and all keys open, so an operator writes a new one above the old ones. AES-GCM with random nonces
/// allows 2³² seals under one key (NIST SP 800-38D, 8.3). The metric `seals_total` counts the seals of tokens.
package struct KeyRing: Sendable {
    private let keys: [SealingKey]

    init(_ keys: [SealingKey]) {
        precondition(!keys.isEmpty, "A key ring without a key")
        self.keys = keys
    }

    package static func generate() -> KeyRing { KeyRing([.random()]) }

    /// The names of the keys, the sealing key first. They are derived from the keys and reveal nothing about them.
    package var keyIDs: [String] { keys.map(\.id.hexadecimal) }

    var current: SealingKey { keys[0] }

    func first(heldBy others: [[String]]) -> SealingKey { keys[keyIDs.firstIndex(of: keyIDs.first(heldBy: others))!] }

    /// This ring, and below it the keys of another one that it lacks.
    func followed(by other: KeyRing) -> KeyRing { KeyRing(keys + other.keys.filter { key in !keys.contains { $0.id == key.id } }) }

    func recipients(of installation: [UInt8]) -> [TokenRecipient] { keys.map { TokenRecipient($0, of: installation) } }
}

extension KeyRing {
    /// Encrypts a secret that the database keeps under a name, such as the fingerprint key.
    package func seal(_ secret: [UInt8], named name: String) throws -> [UInt8] {
        try current.seal(secret, for: .secret(named: name))
    }

    /// - Throws: `SealingError`, also if the bytes were sealed under another name.
    package func open(_ sealed: [UInt8], named name: String) throws(SealingError) -> [UInt8] {
        try open(sealed, for: .secret(named: name))
    }

    func open(_ bytes: [UInt8], for context: SealingContext) throws(SealingError) -> [UInt8] {
        let sealed = try SealedBytes(parsing: bytes)
        guard let key = keys.first(where: { $0.id == sealed.keyID }) else { throw .unknownKey(id: sealed.keyID.hexadecimal) }
        guard let opened = try? AES.GCM.open(sealed.box, using: key.material, authenticating: context.associatedData) else {
            throw .damaged
        }
        return Array(opened)
    }
}

extension KeyRing: CustomStringConvertible, CustomReflectable {
    package var description: String { "[key ring \(keyIDs.joined(separator: " "))]" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension KeyRing {
    package init(parsing text: String) throws(KeyTextError) {
        var keys: [SealingKey] = []
        for word in KeyFileText.words(in: text) {
            guard let key = SealingKey(line: word.text) else { throw .malformed(line: word.number) }
            guard !keys.contains(where: { $0.id == key.id }) else { throw .repeated(line: word.number) }
            keys.append(key)
        }
        guard !keys.isEmpty else { throw .empty }
        self.init(keys)
    }

    /// The first key as a line of a key file, without its end. It is a secret.
    package var line: String { current.line }

    /// The text of a new key file. It ends with a newline.
    package var text: String {
        """
        # The keys that seal the refresh tokens of siwatch. Anybody with this file and the database can read them;
        # without this file they are lost. The first key seals, all of them open. Never keep it with the database's backups.
        \(line)

        """
    }
}

/// What is wrong with the text of a key file. It never holds the text.
package enum KeyTextError: Error, Equatable, CustomStringConvertible {
    /// Lines count from 1.
    case malformed(line: Int)
    case repeated(line: Int)
    case empty

    package var description: String {
        switch self {
        case .malformed(let line): "line \(line) is not a sealing key: siwatch-sealing-key-1:<base64 of 32 bytes>, and nothing else"
        case .repeated(let line): "line \(line) repeats a key from above"
        case .empty: "it holds no key outside of comments; # begins one, and where a line break was lost, the key behind it is part of it"
        }
    }
}
