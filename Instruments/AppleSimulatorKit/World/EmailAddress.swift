// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A user's address at Apple.
package struct EmailAddress: Sendable, Hashable {
    package let text: String
    /// Whether it is at Apple's mail relay.
    package let isPrivate: Bool
}
