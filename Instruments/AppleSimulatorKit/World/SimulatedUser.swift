// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A person with an Apple Account, as one team sees the person.
struct SimulatedUser: Sendable {
    /// The `sub`: stable per person and team, through revocation and new consent.
    let id: String
    let teamID: String
    let address: EmailAddress?
    /// Whether the relay forwards mail. Meaningless for a user's own address.
    var isForwarding = true
    /// When the person deleted the Apple Account.
    var deletedAt: Moment?
    /// Indices of the person's sign-ins, oldest first.
    var grants: [Int] = []
}

/// A user's address at Apple.
package struct EmailAddress: Sendable, Hashable {
    package let text: String
    /// Whether it is at Apple's mail relay.
    package let isPrivate: Bool
}
