// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite struct AppUserTests {
    /// Each entry beats all before it.
    @Test func addressesAreOrderedByTimeThenOriginThenBytesThenPrivacy() {
        let ordered = [
            Mailbox(at: at(1), rank: .event, address: EmailAddress("z")),
            Mailbox(at: at(2), rank: .idToken, address: EmailAddress("z", isPrivate: true)),
            Mailbox(at: at(2), rank: .event, address: EmailAddress("")),
            Mailbox(at: at(2), rank: .event, address: EmailAddress("a", isPrivate: true)),
            Mailbox(at: at(2), rank: .event, address: EmailAddress("ab")),
            Mailbox(at: at(2), rank: .event, address: EmailAddress("b")),
            Mailbox(at: at(2), rank: .event, address: EmailAddress("b", isPrivate: false)),
            Mailbox(at: at(2), rank: .event, address: EmailAddress("b", isPrivate: true)),
            // One name to a reader and to String, two to a table and to a mail server.
            Mailbox(at: at(2), rank: .event, address: EmailAddress("e\u{301}", isPrivate: true)),
            Mailbox(at: at(2), rank: .event, address: EmailAddress("\u{e9}")),
        ]
        for (left, lower) in ordered.enumerated() {
            for (right, higher) in ordered.enumerated() {
                #expect((lower < higher) == (left < right), "\(lower) \(higher)")
                #expect((lower == higher) == (left == right), "\(lower) \(higher)")
            }
        }
    }

    @Test func anOlderFactMovesNothing() {
        let kinds: [Event.Kind] = [.consentRevoked, .accountDeleted, .emailDisabled(EmailAddress("a@example.com"))]
        var user = AppUser()
        for kind in kinds { user.apply(Event(kind, at: at(9))) }
        user.revoke(at: at(9))
        let before = user

        for kind in kinds { user.apply(Event(kind, at: at(8))) }
        user.revoke(at: at(8))
        user.apply(Event(.emailEnabled(EmailAddress("z@example.com")), at: at(8)))
        user.apply(Grant(grantedAt: at(8), address: EmailAddress("z@example.com")))
        #expect(user == before)
    }

    @Test func ofTwoWordsOnForwardingTheLaterStandsAndAtOneTimeDisabled() {
        let disabled = Event(.emailDisabled(nil), at: at(5))
        for (time, expected) in [(5, .disabled), (6, .enabled)] as [(Int64, Forwarding.Status)] {
            let enabled = Event(.emailEnabled(nil), at: at(time))
            for events in [[enabled, disabled], [disabled, enabled]] {
                var user = AppUser()
                for event in events { user.apply(event) }
                #expect(user.shownForwarding == expected)
            }
        }
    }

    @Test func anEventBeatsASignInOfTheSameTime() {
        let grant = Grant(grantedAt: at(5), address: EmailAddress("z@example.com"))
        var user = AppUser()
        user.apply(grant)
        #expect(user.shownForwarding == nil, "a sign-in says nothing of it")
        user.apply(Event(.emailDisabled(EmailAddress("a@example.com")), at: at(5)))
        user.apply(grant)
        #expect(user.mailbox?.address == EmailAddress("a@example.com"))
    }

    @Test(arguments: [4, 5, 6] as [Int64]) func theAddressIsKeptAndForwardingShownOnlyIfNewerThanTheDeletion(_ time: Int64) {
        let address = Event(.emailEnabled(EmailAddress("a@example.com")), at: at(time))
        let deletion = Event(.accountDeleted, at: at(5))
        for events in [[deletion, address], [address, deletion]] {
            var user = AppUser()
            for event in events { user.apply(event) }
            #expect((user.mailbox != nil) == (time > 5))
            #expect((user.shownForwarding != nil) == (time > 5))
        }
    }

    @Test(arguments: [4, 5, 6] as [Int64]) func theAddressIsKeptOnlyIfNewerThanTheDeletionByTheApp(_ time: Int64) {
        let grant = Grant(grantedAt: at(time), address: EmailAddress("a@example.com"))
        let proof = at(5)
        var (first, last) = (AppUser(), AppUser())
        first.apply(grant)
        first.revoke(at: proof)
        last.revoke(at: proof)
        last.apply(grant)
        #expect(first == last)
        #expect((first.mailbox != nil) == (time > 5))
    }

    @Test func anUnknownEventMovesNothing() {
        var user = AppUser()
        user.apply(Event(.unknown, at: at(5)))
        #expect(user == AppUser())
    }
}
