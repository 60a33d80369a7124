// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The address that Apple knows a user by.
package struct EmailAddress: Sendable, Hashable {
    package let text: String
    /// Whether it is one at Apple's mail relay.
    package let isPrivate: Bool
}
