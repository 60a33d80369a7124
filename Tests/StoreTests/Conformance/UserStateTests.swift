// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// `user_state` gives one answer for a user of several clients.
@Suite(.schemas, .timeLimit(.minutes(10))) struct UserStateTests {
    /// Two possible rows of one user. The view must show the first.
    struct Case: CustomTestStringConvertible {
        var speaker: Row
        var other: Row

        typealias Row = (state: String, reason: String, changedAt: Timestamp?)

        var testDescription: String { "\(speaker.reason) before \(other.reason)" }

        private static let early = Timestamp.start
        private static let late = Timestamp.start + .hours(1)
        private static let never: Row = ("notFound", "never_granted", nil)

        /// At one moment. Each row counts before the next.
        private static let ties: [Row] = [
            ("notFound", "account_deleted", early), ("revoked", "revoked_by_app", early), ("revoked", "consent_revoked", early),
            ("revoked", "token_rejected", early),
        ]

        static let all =
            [
                Case(speaker: ("authorized", "granted", early), other: ("revoked", "consent_revoked", late)),
                Case(speaker: ("authorized", "granted", early), other: ("notFound", "account_deleted", late)),
                Case(speaker: ("authorized", "granted", early), other: never),
                Case(speaker: ("authorized", "granted", late), other: ("authorized", "granted", early)),
                Case(speaker: ("revoked", "token_rejected", late), other: ("notFound", "account_deleted", early)),
                Case(speaker: ("revoked", "token_rejected", early), other: never),
            ] + zip(ties, ties.dropFirst()).map(Case.init)
    }

    @Test(arguments: StoreKind.allCases, Case.all)
    func theRightRowSpeaks(_ kind: StoreKind, _ example: Case) async throws {
        for rows in [[example.speaker, example.other], [example.other, example.speaker]] {
            let store = try kind.make()
            for (client, row) in zip(["app", "web"], rows) {
                try await store.signIn(client: client)
                try await store.publish(row.state, row.reason, changedAt: row.changedAt.map(SQLValue.at) ?? .null, client: client)
            }
            let (state, reason, changedAt) = example.speaker
            #expect(
                try await store.rows("SELECT app, user_id, state, reason, changed_at FROM user_state") == [
                    ["example", "user", .text(state), .text(reason), changedAt.map(SQLValue.at) ?? .null]
                ]
            )
        }
    }

    @Test(arguments: StoreKind.allCases)
    func thereIsOneRowForEachUserOfEachApp(_ kind: StoreKind) async throws {
        let store = try kind.make()
        for client in ["app", "web", "elsewhere"] {
            for user in ["one", "two"] { try await store.signIn(user, client: client) }
        }
        #expect(
            try await store.rows("SELECT app, user_id FROM user_state ORDER BY app, user_id")
                == [["example", "one"], ["example", "two"], ["other", "one"], ["other", "two"]]
        )
    }

    @Test(arguments: StoreKind.allCases)
    func theLastVerificationIsThatOfAnyClient(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.signIn(client: "app", token: "r1")
        try await store.refresh(.valid, at: .start + .days(2))
        try await store.signIn(client: "web", at: .start + .days(2))
        #expect(
            try await store.rows("SELECT changed_at, verified_at FROM user_state") == [[.at(.start + .days(2)), .at(.start + .days(2))]]
        )
    }

    /// The columns that the contract names, and no others: no view shows a token.
    @Test(arguments: StoreKind.allCases)
    func theViewsShowWhatTheContractSays(_ kind: StoreKind) async throws {
        let store = try kind.make()
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

    @Test(arguments: StoreKind.allCases)
    func theAppsAndTheirClientsAreThere(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(
            try await store.rows("SELECT app, client_id FROM app_client ORDER BY app, client_id")
                == [["example", "app"], ["example", "web"], ["other", "elsewhere"]]
        )
    }
}
