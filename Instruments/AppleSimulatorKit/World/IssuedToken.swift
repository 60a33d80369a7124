// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What a secret text that this Apple gave out stands for. One kind is never taken for another.
struct IssuedToken: Sendable {
    enum Kind: Sendable {
        case code, refresh, access
    }

    /// The sign-in it came from, by its index.
    let grant: Int
    let kind: Kind
}
