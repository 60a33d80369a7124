// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite struct CredentialChangeTests {
    private static func row(_ state: CredentialState, _ reason: StateReason, since time: Int64?) -> PublishedCredential {
        PublishedCredential(CredentialStanding(state, reason, since: time.map(at)))
    }

    private static func changes(from: CredentialState?, to: CredentialState, _ reason: StateReason, _ time: Int64) -> [CredentialChange] {
        [.state(from: from, to: to, reason: reason, occurredAt: at(time))]
    }

    private static let granted = row(.authorized, .granted, since: 5)
    private static let rejected = row(.revoked, .tokenRejected, since: 7)
    private static let mail = EmailAddress("a@example.com")
    private static let known = PublishedCredential(granted.standing, mail, .enabled)
    private static let unknown = PublishedCredential(CredentialStanding(.notFound, .neverGranted, since: nil), mail, .enabled)

    /// The row before, the row now, and the changes.
    private static let cases: [(PublishedCredential?, PublishedCredential, [CredentialChange])] = [
        // The first row of a user: somebody who signed in, and somebody whom siwatch knows by a deletion only.
        (nil, granted, changes(from: nil, to: .authorized, .granted, 5)),
        (nil, row(.notFound, .accountDeleted, since: 5), changes(from: nil, to: .notFound, .accountDeleted, 5)),
        // The same row, and a later sign-in alone, which the backend itself reported.
        (granted, granted, []), (granted, row(.authorized, .granted, since: 8), []),
        // Another reason for one state.
        (rejected, row(.revoked, .consentRevoked, since: 6), changes(from: .revoked, to: .revoked, .consentRevoked, 6)),
        // A state dates from when it became true.
        (granted, row(.notFound, .accountDeleted, since: 7), changes(from: .authorized, to: .notFound, .accountDeleted, 7)),
        // The first grant announces the address that waited for it.
        (nil, unknown, []),
        (unknown, known, changes(from: nil, to: .authorized, .granted, 5) + [.email(mail, forwarding: .enabled, occurredAt: at(9))]),
    ]

    @Test(arguments: cases)
    func whatDiffersIsAChange(_ old: PublishedCredential?, _ new: PublishedCredential, _ expected: [CredentialChange]) {
        #expect(new.changes(since: old, at: at(9)) == expected)
    }

    /// Sessions that began between the two end with the second.
    @Test(arguments: [
        (CredentialState.revoked, StateReason.consentRevoked), (.revoked, .revokedByApp), (.revoked, .tokenRejected),
        (.notFound, .accountDeleted),
    ])
    func aSecondEndIsAChange(_ state: CredentialState, _ reason: StateReason) {
        let (ended, again) = (Self.row(state, reason, since: 7), Self.row(state, reason, since: 8))
        #expect(again.changes(since: ended, at: at(9)) == Self.changes(from: state, to: state, reason, 8))
        #expect(again.changes(since: again, at: at(9)).isEmpty)
    }

    private static let otherMail: [(EmailAddress?, Forwarding.Status?)] = [
        (EmailAddress("b@example.com"), .enabled), (EmailAddress("a@example.com", isPrivate: true), .enabled), (mail, .disabled),
        (mail, nil), (nil, nil),
    ]

    @Test(arguments: otherMail) func addressAndForwardingAreOneChange(_ address: EmailAddress?, _ forwarding: Forwarding.Status?) {
        let new = PublishedCredential(Self.granted.standing, address, forwarding)
        #expect(new.changes(since: Self.known, at: at(9)) == [.email(address, forwarding: forwarding, occurredAt: at(9))])
    }

    @Test func twoSpellingsOfOneCharacterAreTwoAddresses() {
        let old = PublishedCredential(Self.granted.standing, EmailAddress("e\u{301}@example.com"))
        let new = PublishedCredential(Self.granted.standing, EmailAddress("\u{e9}@example.com"))
        #expect(new.changes(since: old, at: at(9)).count == 1)
    }

    @Test func aRowShowsWhatTheRegistersComeTo() {
        var user = AppUser()
        user.apply(Event(.emailDisabled(EmailAddress("a@example.com")), at: at(7)))
        var credential = Credential()
        credential.apply(Grant(grantedAt: at(5)))
        let row = PublishedCredential(credential, under: user)
        #expect(row == PublishedCredential(Self.granted.standing, EmailAddress("a@example.com"), .disabled))
    }
}

extension PublishedCredential {
    fileprivate init(_ standing: CredentialStanding, _ address: EmailAddress? = nil, _ forwarding: Forwarding.Status? = nil) {
        self.init(Credential(), under: AppUser())
        (self.standing, self.address, self.forwarding) = (standing, address, forwarding)
    }
}
