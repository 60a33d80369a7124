// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// The address and the forwarding that the views show.
@Suite(.schemas, .timeLimit(.minutes(10))) struct MailTests {
    private static let old = EmailAddress("old@example.com", isPrivate: false)
    private static let new = EmailAddress("new@privaterelay.appleid.com", isPrivate: true)

    private func shown(_ store: StoreUnderTest) async throws -> [SQLValue] {
        let rows = try await store.rows("SELECT DISTINCT email, email_is_private, email_forwarding FROM credential_state")
        let user = try await store.rows("SELECT email, email_is_private, email_forwarding FROM user_state")
        #expect(rows == user)
        return rows[0]
    }

    @Test(arguments: StoreKind.allCases)
    func theNewestAddressIsShown(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(email: Self.old)
        #expect(try await shown(store) == ["old@example.com", 0, nil])
        try await store.signIn(client: "web", email: Self.new, at: .start + .hours(1))
        #expect(try await shown(store) == ["new@privaterelay.appleid.com", 1, nil])
        try await store.signIn(email: Self.old, at: .start - .hours(1), now: .start + .hours(1))
        #expect(try await shown(store) == ["new@privaterelay.appleid.com", 1, nil])
    }

    @Test(arguments: StoreKind.allCases)
    func aSignInWithoutAnAddressKeepsTheOldOne(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(email: Self.old)
        try await store.signIn(at: .start + .hours(1))
        #expect(try await shown(store) == ["old@example.com", 0, nil])
    }

    @Test(arguments: StoreKind.allCases)
    func anEmptyAddressIsNone(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(email: EmailAddress("", isPrivate: true))
        #expect(try await shown(store) == [nil, nil, nil])
    }

    @Test(arguments: StoreKind.allCases)
    func nothingOlderThanTheDeletionIsShown(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let deleted = Timestamp.start + .hours(2)
        try await store.signIn(email: Self.old)
        try await store.notify(.emailDisabled(Self.old), at: .start + .hours(1))
        try await store.notify(.accountDeleted, at: deleted)
        #expect(try await shown(store) == [nil, nil, nil])

        try await store.signIn(email: Self.old, at: deleted, now: deleted)
        #expect(try await shown(store) == [nil, nil, nil])
        try await store.signIn(email: Self.new, at: deleted + .milliseconds(1), now: deleted + .hours(1))
        #expect(try await shown(store) == ["new@privaterelay.appleid.com", 1, nil])
        try await store.notify(.emailEnabled(nil), at: deleted + .hours(1))
        #expect(try await shown(store) == ["new@privaterelay.appleid.com", 1, "enabled"])
    }

    @Test(arguments: StoreKind.allCases)
    func atOneMomentNotToMailWins(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.notify(.emailDisabled(nil))
        #expect(try await store.notify(.emailEnabled(nil)) == .notification(.stale))
        #expect(try await shown(store) == [nil, nil, "disabled"])
    }
}
