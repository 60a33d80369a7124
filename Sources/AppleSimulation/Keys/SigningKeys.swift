// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Apple's keys: those that `/auth/keys` shows, and the one of them that signs.
///
/// The signing key is the last in the list, because clients that take the first key have been caught by Apple before.
struct SigningKeys: Sendable {
    private var published: [SigningKey]
    /// The body of `/auth/keys`, made once per change.
    private(set) var document: Data

    init(count: Int) throws {
        precondition(count > 0, "Apple signs with at least one key")
        let keys = try (0..<count).map { _ in try SigningKey() }
        self.published = keys
        self.document = Self.document(of: keys)
    }

    /// The key that signs.
    var current: SigningKey { published[published.count - 1] }

    var ids: [String] { published.map(\.id) }

    /// Makes `new` the key that signs, and withdraws the former ones unless they are kept.
    mutating func rotate(to new: SigningKey, keepingFormer: Bool) {
        published = (keepingFormer ? published : []) + [new]
        document = Self.document(of: published)
    }

    private static func document(of keys: [SigningKey]) -> Data {
        struct Document: Encodable { let keys: [PublishedKey] }
        return JSONText.encode(Document(keys: keys.map(\.published)))
    }
}
