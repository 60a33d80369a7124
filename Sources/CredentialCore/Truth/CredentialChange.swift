// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package enum CredentialChange: Sendable, Equatable {
    case state(from: CredentialState?, to: CredentialState, reason: StateReason, occurredAt: Timestamp)
    case email(EmailAddress?, forwarding: Forwarding.Status?, occurredAt: Timestamp)
}

/// The kind of work that a fact came from.
package enum ChangeSource: String, Sendable {
    case notification, refresh, grant, revocation
}

/// What `credential_state` shows of one credential.
package struct PublishedCredential: Sendable, Equatable {
    package var standing: CredentialStanding
    package var address: EmailAddress?
    package var forwarding: Forwarding.Status?

    package init(_ credential: Credential, under user: AppUser) {
        standing = credential.standing(under: user)
        address = user.mailbox?.address
        forwarding = user.shownForwarding
    }

    /// The changes to announce when this row replaces `old`: one for a new state or reason, and one for a new e-mail or forwarding. A new
    /// `since` of an ended state is a change too, because a session that began in between ends as well, and its sign-in may be committed
    /// only now. A newer sign-in of a signed-in user announces nothing, because its backend told it. Nor does `never_granted`, of which
    /// nothing is known.
    package func changes(since old: PublishedCredential?, at time: Timestamp) -> [CredentialChange] {
        guard isKnown else { return [] }
        let old = old.flatMap { $0.isKnown ? $0 : nil }
        var changes: [CredentialChange] = []
        let isSameEnd = standing.state == .authorized || old?.standing.since == standing.since
        if old?.standing.state != standing.state || old?.standing.reason != standing.reason || !isSameEnd {
            changes.append(
                .state(from: old?.standing.state, to: standing.state, reason: standing.reason, occurredAt: standing.since ?? time)
            )
        }
        if old?.address != address || old?.forwarding != forwarding {
            changes.append(.email(address, forwarding: forwarding, occurredAt: time))
        }
        return changes
    }

    private var isKnown: Bool { standing.reason != .neverGranted }
}
