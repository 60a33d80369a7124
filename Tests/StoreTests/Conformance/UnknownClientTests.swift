// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A forgotten line in the configuration must not cost a token.
@Suite struct UnknownClientTests {
    @Test(arguments: StoreKind.allCases)
    func waitsFromMinuteToMinute(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(client: "forgotten", token: "r")
        for minute in 0...3 {
            let now = Timestamp.start + .minutes(minute)
            #expect(try await store.settleGrants(at: now) { _ in .unknownClient } == [.postponed])
            #expect(try await store.claimGrants(at: now + .seconds(59)).isEmpty)
        }
        #expect(try await store.column("SELECT refresh_token FROM grant_queue") == ["r"])
    }

    /// The caller's configuration may name a client that the store has not been told of yet.
    @Test(arguments: StoreKind.allCases)
    func isUnknownWhateverTheCallerThinks(_ kind: StoreKind) async throws {
        let store = try kind.make()
        #expect(try await store.signIn(client: "forgotten", token: "r") == .postponed)
        #expect(try await store.count("grant_queue") == 1)
    }

    @Test(arguments: StoreKind.allCases)
    func isFreeOnceAnAppNamesIt(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(client: "forgotten", token: "r")
        try await store.settleGrants(at: .start) { _ in .unknownClient }
        try store.register("example", ["app", "web", "forgotten"])
        #expect(try await store.settleGrants(at: .start + .minutes(1)) == [.grant(.applied, nil)])
        #expect(try await store.rows("SELECT app, client_id, state FROM credential_state") == [["example", "forgotten", "authorized"]])
    }

    @Test(arguments: StoreKind.allCases)
    func expiresAfterSevenDays(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(client: "forgotten", token: "r")
        try await store.settleGrants(at: .start) { _ in .unknownClient }
        let week = Timestamp.start + .days(7)
        #expect(try await store.settleGrants(at: week) { _ in .unknownClient } == [.postponed])
        #expect(try await store.settleGrants(at: week + .minutes(1)) { _ in .unknownClient } == [.grant(.rejected, .unknownClientExpired)])
        #expect(
            try await store.rows("SELECT client_id, outcome, reason FROM grant_log")
                == [["forgotten", "rejected", "unknown_client_expired"]]
        )
    }

    /// The daemon was down for a month, or a backlog was imported: the week counts from the first look.
    @Test(arguments: StoreKind.allCases)
    func anOldGrantHasItsWeekToo(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(client: "forgotten", at: .start - .days(30))
        #expect(try await store.settleGrants(at: .start) { _ in .unknownClient } == [.postponed])
        #expect(try await store.settleGrants(at: .start + .days(6)) { _ in .unknownClient } == [.postponed])
        #expect(try await store.settleGrants(at: .start + .days(8)) { _ in .unknownClient } == [.grant(.rejected, .unknownClientExpired)])
    }

    /// One grant that has waited its week says nothing of another that has just come.
    @Test(arguments: StoreKind.allCases)
    func aNewGrantHasItsOwnWeek(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(client: "forgotten")
        try await store.settleGrants(at: .start) { _ in .unknownClient }
        let later = Timestamp.start + .days(8)
        try await store.grant(client: "forgotten", at: later)
        let settled = try await store.settleGrants(at: later) { _ in .unknownClient }
        #expect(
            settled == [.grant(.rejected, .unknownClientExpired), .postponed]
                || settled == [.postponed, .grant(.rejected, .unknownClientExpired)]
        )
        #expect(try await store.column("SELECT granted_at FROM grant_queue") == [.at(later)])
    }
}
