// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The meaning of a secret text that this Apple issued. Apple never takes one kind for another.
struct IssuedToken: Sendable {
    enum Kind: Sendable {
        case code, refresh, access
    }

    /// Its sign-in, by index.
    let grant: Int
    let kind: Kind
}
