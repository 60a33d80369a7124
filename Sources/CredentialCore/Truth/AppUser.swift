// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The registers of one user in one app. They cover every client of the app, because consent is per app group.
package struct AppUser: Sendable, Equatable {
    /// `R`: the newest `consent-revoked`.
    package var consentRevokedAt: Timestamp?
    /// `D`: the newest `account-delete` or `account-deleted`.
    package var deletedAt: Timestamp?
    /// `A`: the newest proved request to revoke, for the token of any client.
    package var revokedAt: Timestamp?
    /// `M`: the newest e-mail address. siwatch keeps it only if it is newer than every deletion of the account, at Apple or by the app.
    package var mailbox: Mailbox?
    /// `F`: the newest word on whether Apple's relay forwards.
    package var forwarding: Forwarding?

    package init() {}

    /// Whether Apple, or a proved request to revoke, has told of the user. A sign-in tells at most of an address.
    var isTold: Bool { consentRevokedAt != nil || deletedAt != nil || revokedAt != nil || forwarding != nil }

    package mutating func apply(_ event: Event) {
        switch event.kind {
        case .consentRevoked: consentRevokedAt = latest(consentRevokedAt, event.occurredAt)
        case .accountDeleted:
            deletedAt = latest(deletedAt, event.occurredAt)
            eraseAddress(until: deletedAt)
        case .emailEnabled(let address): note(.enabled, address, at: event.occurredAt)
        case .emailDisabled(let address): note(.disabled, address, at: event.occurredAt)
        case .unknown: break
        }
    }

    package mutating func apply(_ grant: Grant) {
        guard let address = grant.address else { return }
        note(Mailbox(at: grant.grantedAt, rank: .idToken, address: address))
    }

    /// Takes a proved revocation of any client's token. Apple says that it ends "associated user
    /// authorizations" with it; that these are everything that the user has granted to the app is believed.
    package mutating func revoke(at requestedAt: Timestamp) {
        revokedAt = latest(revokedAt, requestedAt)
        eraseAddress(until: revokedAt)
    }

    /// Erases an address that is not newer than a deletion of the account, because siwatch keeps none that it does not show.
    package mutating func eraseAddress(until time: Timestamp?) {
        if let mailbox, !isGreater(mailbox.at, than: time) { self.mailbox = nil }
    }

    private mutating func note(_ status: Forwarding.Status, _ address: EmailAddress?, at time: Timestamp) {
        let new = Forwarding(at: time, status: status)
        if forwarding.map({ $0 < new }) ?? true { forwarding = new }
        if let address { note(Mailbox(at: time, rank: .event, address: address)) }
    }

    private mutating func note(_ new: Mailbox) {
        guard isGreater(new.at, than: deletedAt), isGreater(new.at, than: revokedAt) else { return }
        if mailbox.map({ $0 < new }) ?? true { mailbox = new }
    }

    /// The forwarding to show; nil if it is not newer than the deletion of the account.
    package var shownForwarding: Forwarding.Status? {
        guard let forwarding, isGreater(forwarding.at, than: deletedAt) else { return nil }
        return forwarding.status
    }
}

/// An e-mail address with its sort key: time, then rank, then the address itself.
package struct Mailbox: Sendable, Equatable, Comparable {
    package enum Rank: Int, Sendable {
        case idToken, event
    }

    package var at: Timestamp
    package var rank: Rank
    package var address: EmailAddress

    package init(at: Timestamp, rank: Rank, address: EmailAddress) {
        (self.at, self.rank, self.address) = (at, rank, address)
    }

    package static func < (left: Mailbox, right: Mailbox) -> Bool {
        if left.at != right.at { return left.at < right.at }
        if left.rank != right.rank { return left.rank.rawValue < right.rank.rawValue }
        if !left.address.text.utf8.elementsEqual(right.address.text.utf8) {
            return left.address.text.utf8.lexicographicallyPrecedes(right.address.text.utf8)
        }
        return left.privacyRank < right.privacyRank
    }

    private var privacyRank: Int { address.isPrivate.map { $0 ? 2 : 1 } ?? 0 }
}

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

    /// At the same time `disabled` wins, because not mailing a user is the smaller mistake.
    package static func < (left: Forwarding, right: Forwarding) -> Bool {
        left.at != right.at ? left.at < right.at : left.status == .enabled && right.status == .disabled
    }
}
