// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// The change that siwatch announces when one published row replaces another.
@Suite struct CredentialChangeTests {
    private let granted = PublishedCredential(CredentialStanding(.authorized, .granted, since: at(5)))

    @Test func aNewCredentialComesFromNoState() {
        #expect(granted.changes(since: nil, at: at(9)) == [.state(from: nil, to: .authorized, reason: .granted, occurredAt: at(5))])
    }

    @Test func aDeletedUserNobodyHasSeenIsANewCredentialToo() {
        let deleted = PublishedCredential(CredentialStanding(.notFound, .accountDeleted, since: at(5)))
        #expect(deleted.changes(since: nil, at: at(9)) == [.state(from: nil, to: .notFound, reason: .accountDeleted, occurredAt: at(5))])
    }

    @Test func theSameRowAnnouncesNothing() {
        #expect(granted.changes(since: granted, at: at(9)).isEmpty)
    }

    /// The backend itself reported it.
    @Test func aLaterSignInAloneAnnouncesNothing() {
        let again = PublishedCredential(CredentialStanding(.authorized, .granted, since: at(8)))
        #expect(again.changes(since: granted, at: at(9)).isEmpty)
    }

    /// Sessions that began between the two end with the second.
    @Test(
        arguments: [
            (.revoked, .consentRevoked), (.revoked, .revokedByApp), (.revoked, .tokenRejected), (.notFound, .accountDeleted),
        ] as [(CredentialState, StateReason)]
    )
    func aSecondEndIsAChange(_ state: CredentialState, _ reason: StateReason) {
        let ended = PublishedCredential(CredentialStanding(state, reason, since: at(7)))
        let again = PublishedCredential(CredentialStanding(state, reason, since: at(8)))
        #expect(again.changes(since: ended, at: at(9)) == [.state(from: state, to: state, reason: reason, occurredAt: at(8))])
        #expect(again.changes(since: again, at: at(9)).isEmpty)
    }

    @Test func anotherReasonForOneStateIsAChange() {
        let rejected = PublishedCredential(CredentialStanding(.revoked, .tokenRejected, since: at(7)))
        let withdrawn = PublishedCredential(CredentialStanding(.revoked, .consentRevoked, since: at(6)))
        #expect(
            withdrawn.changes(since: rejected, at: at(9)) == [
                .state(from: .revoked, to: .revoked, reason: .consentRevoked, occurredAt: at(6))
            ]
        )
    }

    @Test func aStateDatesFromWhenItBecameTrue() {
        let deleted = PublishedCredential(CredentialStanding(.notFound, .accountDeleted, since: at(7)))
        #expect(
            deleted.changes(since: granted, at: at(9)) == [
                .state(from: .authorized, to: .notFound, reason: .accountDeleted, occurredAt: at(7))
            ]
        )
    }

    @Test func whatWasNeverGrantedAnnouncesNothing() {
        let address = EmailAddress("a@example.com")
        let unknown = PublishedCredential(CredentialStanding(.notFound, .neverGranted, since: nil), address, .enabled)
        #expect(unknown.changes(since: nil, at: at(9)).isEmpty)
    }

    @Test func theFirstGrantAnnouncesTheAddressThatWaitedForIt() {
        let address = EmailAddress("a@example.com")
        let unknown = PublishedCredential(CredentialStanding(.notFound, .neverGranted, since: nil), address, .enabled)
        let known = PublishedCredential(granted.standing, address, .enabled)
        #expect(
            known.changes(since: unknown, at: at(9)) == [
                .state(from: nil, to: .authorized, reason: .granted, occurredAt: at(5)),
                .email(address, forwarding: .enabled, occurredAt: at(9)),
            ]
        )
    }

    private static let otherMail: [(EmailAddress?, Forwarding.Status?)] = [
        (EmailAddress("b@example.com"), .enabled),
        (EmailAddress("a@example.com", isPrivate: true), .enabled),
        (EmailAddress("a@example.com"), .disabled),
        (EmailAddress("a@example.com"), nil),
        (nil, nil),
    ]

    @Test(arguments: otherMail) func addressAndForwardingAreOneChange(_ address: EmailAddress?, _ forwarding: Forwarding.Status?) {
        let old = PublishedCredential(granted.standing, EmailAddress("a@example.com"), .enabled)
        let new = PublishedCredential(granted.standing, address, forwarding)
        #expect(new.changes(since: old, at: at(9)) == [.email(address, forwarding: forwarding, occurredAt: at(9))])
    }

    @Test func twoSpellingsOfOneCharacterAreTwoAddresses() {
        let old = PublishedCredential(granted.standing, EmailAddress("e\u{301}@example.com"))
        let new = PublishedCredential(granted.standing, EmailAddress("\u{e9}@example.com"))
        #expect(new.changes(since: old, at: at(9)).count == 1)
    }

    @Test func aRowShowsWhatTheRegistersComeTo() {
        var user = AppUser()
        user.apply(Event(.emailDisabled(EmailAddress("a@example.com")), at: at(7)))
        var credential = Credential()
        credential.apply(Grant(grantedAt: at(5)))
        let row = PublishedCredential(credential, under: user)
        #expect(row == PublishedCredential(granted.standing, EmailAddress("a@example.com"), .disabled))
    }
}

extension PublishedCredential {
    fileprivate init(_ standing: CredentialStanding, _ address: EmailAddress? = nil, _ forwarding: Forwarding.Status? = nil) {
        self.init(Credential(), under: AppUser())
        (self.standing, self.address, self.forwarding) = (standing, address, forwarding)
    }
}
