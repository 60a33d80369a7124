// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Apple's keys: the published ones, and the one of them that signs.
///
/// The signing key is the last in the list, to catch programs that take the first. In February 2020 Apple published three keys instead of
/// one, and users of such programs could not sign in any more.
struct SigningKeys: Sendable {
    private(set) var current: SigningKey
    /// The body of `/auth/keys`, made once per change.
    private(set) var document: Data
    private var published: [PublishedKey]

    /// - Parameter count: the number of published keys. All but the last never sign.
    init(count: Int) throws {
        precondition(count > 0, "Apple signs with at least one key")
        let others = try (1..<count).map { _ in try SigningKey().published }
        current = try SigningKey()
        published = others + [current.published]
        document = Self.document(of: published)
    }

    /// In the order of publication.
    var ids: [String] { published.map(\.kid) }

    /// Makes `new` the signing key, and withdraws the former ones unless `keepingFormer`.
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
