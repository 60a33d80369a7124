// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One user at one client as a store keeps them: the registers, and beside them when Apple is asked about the token.
package struct CredentialRecord: Sendable, Equatable {
    package var credential = Credential()
    /// When Apple last answered about the token, by our clock.
    package var answeredAt: Timestamp?
    /// What it said then.
    package var answer: TokenAnswer?
    /// A rejection that waits to be believed.
    package var pending: PendingRejection?
    /// When the next check, the next try, the end of a claim or of the settle time comes; nil where nothing is left to ask.
    package var dueAt: Timestamp?
    /// Checks in a row that brought no answer.
    package var failures = 0
    /// While the first check of the token has come to nothing yet.
    package var firstCheck: FirstCheck?
    /// Whether Apple had not confirmed the token for long when it was last asked.
    package var isUnverified = false
    /// Whether Apple rejects the token and has never accepted it. The registers say so; kept for those who list them.
    package var isNeverAccepted = false
    /// Claims in a row without a settlement.
    package var attempts = 0
    package var claimedBy: String?

    /// What the first check of a token follows.
    package enum FirstCheck: Int, Sendable {
        /// A sign-in that had just happened, or an operator who waits for the answer: it goes before a backlog.
        case signIn = 0
        case imported = 1
    }

    package init() {}
}
