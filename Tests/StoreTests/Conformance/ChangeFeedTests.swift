// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// `credential_change` has every change of the published rows, once, in order.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct ChangeFeedTests: ConformanceSuite {
    private static func hour(_ count: Int) -> Timestamp { .start + .hours(count) }

    @Test func tellsTheWholeStory() async throws {
        let relay = EmailAddress("a@privaterelay.appleid.com", isPrivate: true)
        try await store.signIn(token: "r", email: EmailAddress("a@example.com"), at: Self.hour(0), now: Self.hour(0) + .minutes(1))
        try await store.notify(.emailDisabled(relay), at: Self.hour(1), tokenID: "j1", now: Self.hour(1) + .minutes(1))
        try await store.refresh(.valid, at: Self.hour(2))
        try await store.refresh(.rejected, at: Self.hour(48))
        try await store.notify(.consentRevoked, at: Self.hour(49), tokenID: "j2", now: Self.hour(49) + .minutes(1))
        try await store.notify(.accountDeleted, at: Self.hour(50), tokenID: "j3", now: Self.hour(50) + .minutes(1))
        try await store.signIn(token: "r2", at: Self.hour(51), now: Self.hour(51) + .minutes(1))

        func minute(_ hour: Int) -> Timestamp { Self.hour(hour) + .minutes(1) }

        let columns = "kind, from_state, to_state, reason, email, email_forwarding, source, notification_jti, occurred_at, recorded_at"
        let states: [[SQLValue]] = [
            ["state", nil, "authorized", "granted", nil, nil, "grant", nil, .at(Self.hour(0)), .at(minute(0))],
            ["state", "authorized", "revoked", "token_rejected", nil, nil, "refresh", nil, .at(Self.hour(2)), .at(Self.hour(48))],
            ["state", "revoked", "revoked", "consent_revoked", nil, nil, "notification", "j2", .at(Self.hour(49)), .at(minute(49))],
            ["state", "revoked", "notFound", "account_deleted", nil, nil, "notification", "j3", .at(Self.hour(50)), .at(minute(50))],
            ["state", "notFound", "authorized", "granted", nil, nil, "grant", nil, .at(Self.hour(51)), .at(minute(51))],
        ]
        let relayed: SQLValue = "a@privaterelay.appleid.com"
        let mails: [[SQLValue]] = [
            ["email", nil, nil, nil, "a@example.com", nil, "grant", nil, .at(Self.hour(0)), .at(minute(0))],
            ["email", nil, nil, nil, relayed, "disabled", "notification", "j1", .at(Self.hour(1)), .at(minute(1))],
            ["email", nil, nil, nil, nil, nil, "notification", "j3", .at(Self.hour(50)), .at(minute(50))],
        ]
        let found = try await store.rows("SELECT \(columns) FROM credential_change ORDER BY id")
        #expect(found == [states[0], mails[0], mails[1], states[1], states[2], states[3], mails[2], states[4]])
        #expect(try await store.rows("SELECT DISTINCT app, client_id, user_id FROM credential_change") == [["example", "app", "user"]])
    }

    /// Several facts in one commit: the feed also has the states in between, so that a reader can follow.
    @Test func oneCommitOfManyFactsTellsEachChange() async throws {
        for number in 0..<3 { try await store.grant(at: Self.hour(number)) }
        let work = try await store.claimGrants(at: Self.hour(3))
        try await store.receive(at: Self.hour(3))
        let event = try await store.claimNotifications(at: Self.hour(3))[0]
        let end = Settlement.notification(event, .event(.consentRevoked, at: Self.hour(3)))
        _ = try await store.settle(work.map { .grant($0, .acceptance(of: $0)) } + [end], at: Self.hour(3))
        let changes = try await store.rows("SELECT from_state, to_state FROM credential_change ORDER BY id")
        #expect(changes == [[nil, "authorized"], ["authorized", "revoked"]])
    }

    /// A later sign-in of a user who is signed in changes `changed_at`, and neither state nor reason.
    @Test func theSameAgainIsNoChange() async throws {
        try await store.signIn(token: "r", email: EmailAddress("a@example.com"))
        let before = try await store.count("credential_change")
        try await store.signIn(token: "r2", email: EmailAddress("a@example.com"), at: Self.hour(1))
        try await store.refresh(.valid, at: Self.hour(48))
        #expect(try await store.count("credential_change") == before)
        #expect(try await store.column("SELECT changed_at FROM credential_state") == [.at(Self.hour(1))])
    }

    /// Behind a long queue siwatch settles the second end before the sign-in that it ends. By then the feed tells a follower that keeps the
    /// session.
    @Test func aSecondEndIsTold() async throws {
        try await store.signIn(at: Self.hour(0))
        try await store.notify(.consentRevoked, at: Self.hour(1), tokenID: "j1")
        try await store.notify(.consentRevoked, at: Self.hour(3), tokenID: "j2")
        try await store.notify(.consentRevoked, at: Self.hour(2), tokenID: "j3")
        try await store.signIn(at: Self.hour(2), now: Self.hour(4))
        let columns = "from_state, to_state, reason, occurred_at, source, notification_jti"
        let told: [[SQLValue]] = [
            [nil, "authorized", "granted", .at(Self.hour(0)), "grant", nil],
            ["authorized", "revoked", "consent_revoked", .at(Self.hour(1)), "notification", "j1"],
            ["revoked", "revoked", "consent_revoked", .at(Self.hour(3)), "notification", "j2"],
        ]
        #expect(try await store.rows("SELECT \(columns) FROM credential_change ORDER BY id") == told)
        let found = try await store.rows("SELECT state, reason, changed_at FROM user_state")
        #expect(found == [["revoked", "consent_revoked", .at(Self.hour(3))]])
    }

    @Test func idsOnlyEverGrow() async throws {
        for number in 0..<10 { try await store.signIn("user\(number)") }
        let ids = try await store.column("SELECT id FROM credential_change").compactMap(\.integer)
        #expect(ids.count == 10 && ids == ids.sorted())
        try await store.run("DELETE FROM credential_change")
        try await store.signIn("one more")
        #expect(try #require(try await store.column("SELECT id FROM credential_change")[0].integer) > ids[9])
    }
}
