// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// `user_state` gives one answer for a user of several clients.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct UserStateTests: ConformanceSuite {
    private typealias Row = (state: String, reason: String, changedAt: Timestamp?)

    /// Two possible rows of one user. The view must show the first.
    private static let cases: [(Row, Row)] = {
        let (early, late) = (Timestamp.start, Timestamp.start + .hours(1))
        let never: Row = ("notFound", "never_granted", nil)
        // At one moment. Each row counts before the next.
        let ties: [Row] = [
            ("notFound", "account_deleted", early), ("revoked", "revoked_by_app", early), ("revoked", "consent_revoked", early),
            ("revoked", "token_rejected", early),
        ]
        let others: [(Row, Row)] = [
            (("authorized", "granted", early), ("revoked", "consent_revoked", late)),
            (("authorized", "granted", early), ("notFound", "account_deleted", late)),
            (("authorized", "granted", early), never),
            (("authorized", "granted", late), ("authorized", "granted", early)),
            (("revoked", "token_rejected", late), ("notFound", "account_deleted", early)),
            (("revoked", "token_rejected", early), never),
        ]
        return others + zip(ties, ties.dropFirst())
    }()

    @Test func theRightRowSpeaks() async throws {
        for (speaker, other) in Self.cases {
            for rows in [[speaker, other], [other, speaker]] {
                for (client, row) in zip(["app", "web"], rows) {
                    try await store.signIn(client: client)
                    try await store.publish(row.state, row.reason, changedAt: row.changedAt.map(SQLValue.at) ?? .null, client: client)
                }
                let shown = try await store.rows("SELECT app, user_id, state, reason, changed_at FROM user_state")
                let changedAt = speaker.changedAt.map(SQLValue.at) ?? .null
                #expect(shown == [["example", "user", .text(speaker.state), .text(speaker.reason), changedAt]], "before \(other.reason)")
            }
        }
    }

    @Test func thereIsOneRowForEachUserOfEachApp() async throws {
        for client in ["app", "web", "elsewhere"] {
            for user in ["one", "two"] { try await store.signIn(user, client: client) }
        }
        let states = try await store.rows("SELECT app, user_id FROM user_state ORDER BY app, user_id")
        #expect(states == [["example", "one"], ["example", "two"], ["other", "one"], ["other", "two"]])
    }

    @Test func theLastVerificationIsThatOfAnyClient() async throws {
        try await store.signIn(client: "app", token: "r1")
        try await store.refresh(.valid, at: .start + .days(2))
        try await store.signIn(client: "web", at: .start + .days(2))
        let found = try await store.rows("SELECT changed_at, verified_at FROM user_state")
        #expect(found == [[.at(.start + .days(2)), .at(.start + .days(2))]])
    }

    /// The columns that the contract names, and no others: no view shows a token.
    @Test func theViewsShowWhatTheContractSays() async throws {
        try await store.signIn(token: "r")
        #expect(try await store.rows("SELECT * FROM user_state")[0].count == 9)
        #expect(try await store.rows("SELECT * FROM credential_state")[0].count == 11)
        _ = try await store.rows(
            "SELECT app, user_id, state, reason, changed_at, verified_at, email, email_is_private, email_forwarding FROM user_state"
        )
        _ = try await store.rows(
            """
            SELECT app, client_id, user_id, state, reason, changed_at, verified_at, next_check_at, email, email_is_private, email_forwarding
              FROM credential_state
            """
        )
    }

    @Test func theAppsAndTheirClientsAreThere() async throws {
        let clients = try await store.rows("SELECT app, client_id FROM app_client ORDER BY app, client_id")
        #expect(clients == [["example", "app"], ["example", "web"], ["other", "elsewhere"]])
    }
}

/// A user consents to an app group. A fact about the user there holds for every client of the group, and for no other group.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct AppGroupTests: ConformanceSuite {
    private static let later = Timestamp.start + .hours(1)

    private func states() async throws -> [[SQLValue]] {
        try await store.rows("SELECT app, client_id, state, reason FROM credential_state ORDER BY app, client_id")
    }

    @Test func anEventForOneClientReachesAll() async throws {
        try await store.signIn(client: "app")
        try await store.signIn(client: "web")
        try await store.notify(.consentRevoked, client: "web", at: Self.later)
        let revoked: [SQLValue] = ["revoked", "consent_revoked"]
        #expect(try await states() == [["example", "app"] + revoked, ["example", "web"] + revoked])
        let told = try await store.rows("SELECT client_id, from_state FROM credential_change WHERE to_state = 'revoked' ORDER BY client_id")
        #expect(told == [["app", "authorized"], ["web", "authorized"]])
    }

    @Test func anEventMakesARowForTheClientItNames() async throws {
        try await store.signIn(client: "app")
        try await store.notify(.accountDeleted, client: "web", at: Self.later)
        let shown = try await states()
        #expect(shown == [["example", "app", "notFound", "account_deleted"], ["example", "web", "notFound", "account_deleted"]])
    }

    @Test func aSignInAtOneClientLeavesTheOtherRevoked() async throws {
        try await store.signIn(client: "app")
        try await store.signIn(client: "web")
        try await store.notify(.consentRevoked, at: Self.later)
        try await store.signIn(client: "web", at: Self.later + .hours(1))
        #expect(try await states() == [["example", "app", "revoked", "consent_revoked"], ["example", "web", "authorized", "granted"]])
    }

    @Test func anEventBetweenTwoSignInsIsApplied() async throws {
        try await store.signIn(client: "app")
        try await store.signIn(client: "web", at: Self.later + .hours(1))
        #expect(try await store.notify(.consentRevoked, at: Self.later, now: Self.later + .hours(2)) == .notification(.applied))
        #expect(try await states() == [["example", "app", "revoked", "consent_revoked"], ["example", "web", "authorized", "granted"]])
    }

    /// Two developers' teams may see the same `sub`. The tables do not forbid it.
    @Test func anotherAppIsAnotherWorld() async throws {
        let address = EmailAddress("a@example.com")
        try await store.signIn(client: "app", token: "r1", email: address)
        try await store.signIn(client: "elsewhere", token: "r2")
        try await store.notify(.accountDeleted, client: "elsewhere", at: Self.later)
        let ended: [SQLValue] = ["other", "elsewhere", "notFound", "account_deleted"]
        #expect(try await states() == [["example", "app", "authorized", "granted"], ended])
        #expect(try await store.column("SELECT email FROM credential_state ORDER BY app") == ["a@example.com", nil])
        #expect(try await store.claimCredentials(of: "other", at: .start + .days(3)).isEmpty)
        #expect(try await store.claimCredentials(of: "example", at: .start + .days(3)).count == 1)
    }

    /// Swift treats the two spellings as one string. To Apple, and to the tables, they are two users.
    @Test func usersAreToldApartByBytes() async throws {
        let (composed, decomposed) = ("us\u{e9}r", "use\u{301}r")
        try await store.grant(composed)
        try await store.grant(decomposed, at: .start - .hours(1))
        #expect(try await store.settleGrants(at: .start) == [.grant(.applied, nil), .grant(.applied, nil)])
        let found = try await store.column("SELECT changed_at FROM credential_state ORDER BY changed_at")
        #expect(found == [.at(.start - .hours(1)), .at(.start)])
    }
}
