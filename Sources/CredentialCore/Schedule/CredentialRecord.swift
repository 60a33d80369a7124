// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One user at one client, as a store keeps it: the registers and the schedule of the token's checks.
package struct CredentialRecord: Sendable, Equatable {
    package var credential = Credential()
    /// When Apple last answered about the token, by our clock.
    package var answeredAt: Timestamp?
    /// Apple's answer at `answeredAt`.
    package var answer: TokenAnswer?
    /// A rejection that waits to be believed.
    package var pending: PendingRejection?
    /// When the next check or try comes, or a claim or the settle time ends; nil if nothing is left to ask.
    package var dueAt: Timestamp?
    /// Checks in a row without an answer.
    package var failures = 0
    /// The reason for the token's first check; nil once siwatch has made that check.
    package var firstCheck: FirstCheck?
    /// Whether Apple had not confirmed the token for three intervals when it was last asked.
    package var isUnverified = false
    /// Whether Apple rejects the token and has never accepted it. It follows from the registers, and is kept for lists and counts.
    package var isNeverAccepted = false
    /// Claims in a row without a settlement.
    package var attempts = 0
    package var claimedBy: String?
    /// The import that alone has told of the credential; nil once siwatch has learnt anything of it from elsewhere.
    package var importedBy: Int64?

    /// The reason for the first check of a token.
    package enum FirstCheck: Int, Sendable {
        /// A sign-in that has just happened, or an operator who waits for the answer. The check goes before a backlog.
        case signIn = 0
        case imported = 1
    }

    package init(importedBy importID: Int64? = nil) {
        importedBy = importID
    }
}
