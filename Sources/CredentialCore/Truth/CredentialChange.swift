// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What the world is told when a credential's published row changes.
package enum CredentialChange: Sendable, Equatable {
    case state(from: CredentialState?, to: CredentialState, reason: StateReason, occurredAt: Timestamp)
    case email(EmailAddress?, forwarding: Forwarding.Status?, occurredAt: Timestamp)
}

/// What a fact came from.
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

    /// What to announce now that this row replaces `old`, one entry per change of (state, reason) and of the e-mail, and one where an
    /// ended state has ended later than was said: a session that began in between ends too, and its sign-in may be committed only now.
    ///
    /// A newer sign-in of somebody who is signed in announces nothing: its backend told it. Nor does a credential that nobody has granted:
    /// nothing is known of it.
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
