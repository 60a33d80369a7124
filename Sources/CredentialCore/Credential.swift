// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The registers of one user at one client. Each keeps the greatest key it has seen, so order and duplicates cannot matter.
///
/// The letters are those of the table in docs/architecture.md.
package struct Credential: Sendable, Equatable {
    /// `G`: the newest sign-in.
    package var grantedAt: Timestamp?
    /// `T`: the token of the newest sign-in that brought one.
    package var token: RefreshToken?
    /// `B`: the newest proved revocation.
    package var revokedAt: Timestamp?
    /// `V`: when Apple was last asked about `T` and answered 200.
    package var verifiedAt: Timestamp?
    /// `X`: when Apple was last asked about `T` and answered with an `invalid_grant` that was admitted.
    package var rejectedAt: Timestamp?

    package init() {}

    package mutating func apply(_ grant: Grant) {
        grantedAt = latest(grantedAt, grant.grantedAt)
        guard let new = grant.token else { return }
        if let token, token.key >= new.key { return }
        token = new
        verifiedAt = nil
        rejectedAt = nil
    }

    /// Takes an answer in, unless it was asked under a token that is not the current one any more.
    package mutating func apply(_ answer: RefreshAnswer) {
        guard answer.token == token?.key else { return }
        switch answer.verdict {
        case .valid: verifiedAt = latest(verifiedAt, answer.requestedAt)
        case .rejected: rejectedAt = latest(rejectedAt, answer.requestedAt)
        }
    }

    package mutating func apply(_ revocation: Revocation) {
        revokedAt = latest(revokedAt, revocation.requestedAt)
    }

    /// Erases the sealed token where signed evidence or a proved revocation stands above it.
    package mutating func eraseUnusableToken(under user: AppUser) {
        if token?.sealed != nil, !isTokenUsable(under: user) {
            token?.sealed = nil
        }
    }

    /// `T` is usable while it is not older than `D` and `R` and newer than `B`.
    package func isTokenUsable(under user: AppUser) -> Bool {
        guard let granted = token?.key.grantedAt else { return false }
        return !isGreater(user.deletedAt, than: granted)
            && !isGreater(user.consentRevokedAt, than: granted)
            && isGreater(granted, than: revokedAt)
    }

    /// Whether Apple's last admitted word on `T` is a rejection. Equality favours the 200.
    package var isTokenRejected: Bool {
        isGreater(rejectedAt, than: verifiedAt)
    }

    /// Whether Apple rejects `T` and has never accepted it: it was dead before it came here, was issued to another client, or is no
    /// token. Its rejection says nothing of any sign-in.
    package func isTokenNeverAccepted(under user: AppUser) -> Bool {
        rejectedAt != nil && verifiedAt == nil && isTokenUsable(under: user)
    }

    /// The token to ask Apple about on schedule, if there is one.
    package func tokenToCheck(under user: AppUser) -> RefreshToken? {
        guard isTokenUsable(under: user), !isTokenRejected, let token, token.sealed != nil else { return nil }
        return token
    }
}

/// The registers of one user in one app. Consent is per app group, so they cover every client of it.
package struct AppUser: Sendable, Equatable {
    /// `R`: the newest `consent-revoked`.
    package var consentRevokedAt: Timestamp?
    /// `D`: the newest `account-delete` or `account-deleted`.
    package var deletedAt: Timestamp?
    /// `M`: the newest e-mail address. None that is not newer than the deletion of the account is kept.
    package var mailbox: Mailbox?
    /// `F`: the newest word on relay forwarding.
    package var forwarding: Forwarding?

    package init() {}

    package mutating func apply(_ event: Event) {
        switch event.kind {
        case .consentRevoked: consentRevokedAt = latest(consentRevokedAt, event.occurredAt)
        case .accountDeleted:
            deletedAt = latest(deletedAt, event.occurredAt)
            // What is not shown any more is not kept either.
            if let mailbox, !isGreater(mailbox.at, than: deletedAt) { self.mailbox = nil }
        case .emailEnabled(let address): note(.enabled, address, at: event.occurredAt)
        case .emailDisabled(let address): note(.disabled, address, at: event.occurredAt)
        case .unknown: break
        }
    }

    /// Takes in the address of a sign-in.
    package mutating func apply(_ grant: Grant) {
        guard let address = grant.address else { return }
        note(Mailbox(at: grant.grantedAt, rank: .idToken, address: address))
    }

    private mutating func note(_ status: Forwarding.Status, _ address: EmailAddress?, at time: Timestamp) {
        let new = Forwarding(at: time, status: status)
        if forwarding.map({ $0 < new }) ?? true { forwarding = new }
        if let address { note(Mailbox(at: time, rank: .event, address: address)) }
    }

    private mutating func note(_ new: Mailbox) {
        guard isGreater(new.at, than: deletedAt) else { return }
        if mailbox.map({ $0 < new }) ?? true { mailbox = new }
    }

    /// The forwarding to show: none that is not newer than the deletion of the account.
    package var shownForwarding: Forwarding.Status? {
        guard let forwarding, isGreater(forwarding.at, than: deletedAt) else { return nil }
        return forwarding.status
    }
}

/// An address and the key that decides between two: time, then rank, then the address itself.
package struct Mailbox: Sendable, Equatable, Comparable {
    package enum Rank: Int, Sendable {
        case idToken, event
    }

    package var at: Timestamp
    package var rank: Rank
    package var address: EmailAddress

    package init(at: Timestamp, rank: Rank, address: EmailAddress) {
        self.at = at
        self.rank = rank
        self.address = address
    }

    package static func < (left: Mailbox, right: Mailbox) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.rank != right.rank { return left.rank.rawValue < right.rank.rawValue }
        if !left.address.text.utf8.elementsEqual(right.address.text.utf8) {
            return left.address.text.utf8.lexicographicallyPrecedes(right.address.text.utf8)
        }
        return left.privacyRank < right.privacyRank
    }

    private var privacyRank: Int {
        switch address.isPrivate {
        case nil: 0
        case false?: 1
        case true?: 2
        }
    }
}

/// Whether Apple's relay forwards mail to the user.
package struct Forwarding: Sendable, Equatable, Comparable {
    package enum Status: String, Sendable {
        case enabled, disabled
    }

    package var at: Timestamp
    package var status: Status

    package init(at: Timestamp, status: Status) {
        self.at = at
        self.status = status
    }

    /// At one moment `disabled` wins: not to mail somebody is the smaller mistake.
    package static func < (left: Forwarding, right: Forwarding) -> Bool {
        left.at != right.at ? left.at < right.at : left.status == .enabled && right.status == .disabled
    }
}
