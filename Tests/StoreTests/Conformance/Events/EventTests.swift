// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct EventTests: ConformanceSuite {
    private static let later = Timestamp.start + .hours(1)

    private func row(after kind: Event.Kind) async throws -> [SQLValue] {
        try await store.signIn(token: "r", email: EmailAddress("a@example.com"))
        #expect(try await store.notify(kind, at: Self.later) == .notification(kind == .unknown ? .unknownType : .applied))
        return try await store.rows("SELECT state, reason, changed_at, email, email_is_private, email_forwarding FROM credential_state")[0]
    }

    @Test func withdrawnConsentRevokes() async throws {
        #expect(try await row(after: .consentRevoked) == ["revoked", "consent_revoked", .at(Self.later), "a@example.com", nil, nil])
    }

    @Test func aDeletedAccountIsNotFound() async throws {
        #expect(try await row(after: .accountDeleted) == ["notFound", "account_deleted", .at(Self.later), nil, nil, nil])
    }

    @Test func mailThatIsForwardedChangesNoState() async throws {
        let found = try await row(after: .emailEnabled(EmailAddress("b@privaterelay.appleid.com", isPrivate: true)))
        #expect(found == ["authorized", "granted", .at(.start), "b@privaterelay.appleid.com", 1, "enabled"])
    }

    @Test func mailThatIsNotForwardedChangesNoState() async throws {
        #expect(try await row(after: .emailDisabled(nil)) == ["authorized", "granted", .at(.start), "a@example.com", nil, "disabled"])
    }

    @Test func anUnknownTypeChangesNothing() async throws {
        #expect(try await row(after: .unknown) == ["authorized", "granted", .at(.start), "a@example.com", nil, nil])
        #expect(try await store.notify(.unknown, "nobody", type: "other", now: Self.later) == .notification(.unknownType))
        #expect(try await store.count("credential_state") == 1)
    }

    @Test func aSignInAfterwardsAuthorizesAgain() async throws {
        _ = try await row(after: .consentRevoked)
        try await store.signIn(token: "new", at: Self.later + .hours(1))
        #expect(try await store.rows("SELECT state, reason FROM credential_state") == [["authorized", "granted"]])
        #expect(try await store.claimCredentials(at: Self.later + .days(3)).count == 1)
    }

    /// The user consents to the app group, so the event also counts for a client that gets its first row later.
    @Test func aSignInThatComesLateDoesNotUndoIt() async throws {
        try await store.notify(.consentRevoked, at: Self.later)
        try await store.signIn(client: "web", token: "r", at: .start, now: Self.later)
        let states = try await store.rows("SELECT client_id, state, reason, next_check_at FROM credential_state ORDER BY client_id")
        #expect(states == [["app", "revoked", "consent_revoked", nil], ["web", "revoked", "consent_revoked", nil]])
    }
}

@Suite(.eachStore, .timeLimit(.minutes(10))) struct EventOutcomeTests: ConformanceSuite {
    private static let later = Timestamp.start + .hours(1)

    @Test func theLogHoldsWhatAppleSaid() async throws {
        try await store.receive("{\"payload\":\"a.b.c\"}", at: Self.later)
        let work = try await store.claimNotifications(at: Self.later)
        let verdict = NotificationVerdict.event(.accountDeleted, client: "web", type: "account-delete", tokenID: "jti.1")
        #expect(try await store.settle(.notification(work[0], verdict), at: Self.later + .seconds(1)) == .notification(.applied))
        let columns = "app, jti, client_id, user_id, type, event_time, payload, received_at, settled_at, outcome"
        let event: [SQLValue] = ["example", "jti.1", "web", "user", "account-delete", .at(.start), "{\"payload\":\"a.b.c\"}"]
        let times: [SQLValue] = [.at(Self.later), .at(Self.later + .seconds(1))]
        #expect(try await store.rows("SELECT \(columns) FROM notification_log") == [event + times + ["applied"]])
        #expect(try await store.count("notification_queue") == 0)
    }

    /// The four columns decide, not the message's own name.
    @Test func toldTwiceIsADuplicate() async throws {
        try await store.signIn()
        #expect(try await store.notify(.consentRevoked, at: Self.later, tokenID: "1") == .notification(.applied))
        #expect(try await store.notify(.consentRevoked, at: Self.later, tokenID: "1") == .notification(.duplicate))
        #expect(try await store.notify(.consentRevoked, client: "web", at: Self.later, tokenID: "2") == .notification(.duplicate))
        let found = try await store.rows("SELECT outcome, jti, payload IS NULL FROM notification_log ORDER BY id")
        #expect(found == [["applied", "1", 0], ["duplicate", "1", 1], ["duplicate", "2", 1]])
    }

    @Test func oneDifferenceIsEnoughToBeAnother() async throws {
        let outcomes = [
            try await store.notify(.unknown),
            try await store.notify(.unknown, "another"),
            try await store.notify(.unknown, client: "elsewhere"),
            try await store.notify(.unknown, at: Self.later),
            try await store.notify(.unknown, type: "newer"),
        ]
        #expect(outcomes == Array(repeating: .notification(.unknownType), count: 5))
        #expect(try await store.column("SELECT DISTINCT payload IS NOT NULL FROM notification_log") == [1])
    }

    @Test func anUnknownTypeCanBeADuplicateToo() async throws {
        try await store.notify(.unknown)
        #expect(try await store.notify(.unknown) == .notification(.duplicate))
    }

    @Test func whatMovesNoRegisterIsStale() async throws {
        try await store.notify(.consentRevoked, at: Self.later)
        #expect(try await store.notify(.consentRevoked, at: .start, now: Self.later) == .notification(.stale))
        let log = try await store.rows("SELECT outcome, payload FROM notification_log ORDER BY id")
        #expect(log == [["applied", "jws"], ["stale", "jws"]])
    }

    @Test func whatASignInStandsAboveIsStale() async throws {
        try await store.signIn(at: Self.later)
        #expect(try await store.notify(.accountDeleted, at: .start, now: Self.later) == .notification(.stale))
        #expect(try await store.column("SELECT state FROM credential_state") == ["authorized"])
    }

    /// Apple has used two names for one event.
    @Test func anotherNameForTheSameIsStale() async throws {
        #expect(try await store.notify(.accountDeleted, type: "account-delete") == .notification(.applied))
        #expect(try await store.notify(.accountDeleted, type: "account-deleted") == .notification(.stale))
    }

    @Test func duplicatesWithinABatchAreSeen() async throws {
        try await store.receive(100)
        let work = try await store.claimNotifications()
        let results = try await store.settle(work.map { .notification($0, .event(.consentRevoked)) }).results
        #expect(results.first == .notification(.applied))
        #expect(results.count { $0 == .notification(.duplicate) } == 99)
        #expect(try await store.count("notification_log") == 100)
        #expect(try await store.count("credential_change") == 1)
    }
}

@Suite(.eachStore, .timeLimit(.minutes(10))) struct MailTests: ConformanceSuite {
    private static let old = EmailAddress("old@example.com", isPrivate: false)
    private static let new = EmailAddress("new@privaterelay.appleid.com", isPrivate: true)

    private func shown() async throws -> [SQLValue] {
        let rows = try await store.rows("SELECT DISTINCT email, email_is_private, email_forwarding FROM credential_state")
        let user = try await store.rows("SELECT email, email_is_private, email_forwarding FROM user_state")
        #expect(rows == user)
        return rows[0]
    }

    @Test func theNewestAddressIsShown() async throws {
        try await store.signIn(email: Self.old)
        #expect(try await shown() == ["old@example.com", 0, nil])
        try await store.signIn(client: "web", email: Self.new, at: .start + .hours(1))
        #expect(try await shown() == ["new@privaterelay.appleid.com", 1, nil])
        try await store.signIn(email: Self.old, at: .start - .hours(1), now: .start + .hours(1))
        #expect(try await shown() == ["new@privaterelay.appleid.com", 1, nil])
    }

    @Test func aSignInWithoutAnAddressKeepsTheOldOne() async throws {
        try await store.signIn(email: Self.old)
        try await store.signIn(at: .start + .hours(1))
        #expect(try await shown() == ["old@example.com", 0, nil])
    }

    @Test func anEmptyAddressIsNone() async throws {
        try await store.signIn(email: EmailAddress("", isPrivate: true))
        #expect(try await shown() == [nil, nil, nil])
    }

    @Test func nothingOlderThanTheDeletionIsShown() async throws {
        let deleted = Timestamp.start + .hours(2)
        try await store.signIn(email: Self.old)
        try await store.notify(.emailDisabled(Self.old), at: .start + .hours(1))
        try await store.notify(.accountDeleted, at: deleted)
        #expect(try await shown() == [nil, nil, nil])

        try await store.signIn(email: Self.old, at: deleted, now: deleted)
        #expect(try await shown() == [nil, nil, nil])
        try await store.signIn(email: Self.new, at: deleted + .milliseconds(1), now: deleted + .hours(1))
        #expect(try await shown() == ["new@privaterelay.appleid.com", 1, nil])
        try await store.notify(.emailEnabled(nil), at: deleted + .hours(1))
        #expect(try await shown() == ["new@privaterelay.appleid.com", 1, "enabled"])
    }

    @Test func atOneMomentNotToMailWins() async throws {
        try await store.notify(.emailDisabled(nil))
        #expect(try await store.notify(.emailEnabled(nil)) == .notification(.stale))
        #expect(try await shown() == [nil, nil, "disabled"])
    }
}

@Suite(.eachStore, .timeLimit(.minutes(10))) struct NeverGrantedTests: ConformanceSuite {
    private static let address = EmailAddress("a@privaterelay.appleid.com", isPrivate: true)

    @Test func standsInTheViewsAndSaysNothing() async throws {
        #expect(try await store.notify(.emailEnabled(Self.address)) == .notification(.applied))
        let states = try await store.rows("SELECT state, reason, changed_at, verified_at, next_check_at FROM credential_state")
        #expect(states == [["notFound", "never_granted", nil, nil, nil]])
        let found = try await store.rows("SELECT app, user_id, state, reason, changed_at, verified_at FROM user_state")
        #expect(found == [["example", "user", "notFound", "never_granted", nil, nil]])
    }

    @Test func announcesNothing() async throws {
        try await store.notify(.emailEnabled(Self.address))
        try await store.notify(.emailDisabled(Self.address), at: .start + .hours(1))
        #expect(try await store.count("credential_change") == 0)
    }

    @Test func isNewWithTheFirstSignIn() async throws {
        try await store.notify(.emailEnabled(Self.address))
        try await store.signIn(at: .start + .hours(1))
        let columns = "kind, from_state, to_state, reason, email, email_forwarding, source"
        let changes = try await store.rows("SELECT \(columns) FROM credential_change ORDER BY id")
        #expect(changes.first == ["state", nil, "authorized", "granted", nil, nil, "grant"])
        #expect(changes.dropFirst() == [["email", nil, nil, nil, "a@privaterelay.appleid.com", "enabled", "grant"]])
    }
}
