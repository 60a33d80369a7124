// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Apple's keys: those that `/auth/keys` shows, and the one of them that signs.
///
/// The signing key is the last in the list, because Apple has caught out clients that take the first: in February 2020 one key became
/// three, and their users could not sign in any more.
struct SigningKeys: Sendable {
    /// The key that signs.
    private(set) var current: SigningKey
    /// The body of `/auth/keys`, made once per change.
    private(set) var document: Data
    private var published: [PublishedKey]

    /// - Parameter count: how many keys are shown, of which all but the last never sign anything.
    init(count: Int) throws {
        precondition(count > 0, "Apple signs with at least one key")
        let others = try (1..<count).map { _ in try SigningKey().published }
        current = try SigningKey()
        published = others + [current.published]
        document = Self.document(of: published)
    }

    /// In the order of publication.
    var ids: [String] { published.map(\.kid) }

    /// Makes `new` the key that signs, and withdraws the former ones unless they are kept.
    mutating func rotate(to new: SigningKey, keepingFormer: Bool) {
        current = new
        published = (keepingFormer ? published : []) + [new.published]
        document = Self.document(of: published)
    }

    private static func document(of keys: [PublishedKey]) -> Data {
        struct Document: Encodable { let keys: [PublishedKey] }
        return JSONText.encode(Document(keys: keys))
    }
}
