// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A forgotten line in the configuration must not cost a token.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct UnknownClientTests: ConformanceSuite {
    /// Looks at the due rows, with a clock that siwatch trusts or not.
    private func look(at now: Timestamp, isTrusted: Bool = true) async throws -> [Settled] {
        try await store.settleGrants(at: now) { _ in .unknownClient(lookedAt: isTrusted ? now : nil) }
    }

    /// siwatch does not rewrite a hundred thousand of them each minute.
    @Test func isLookedAtSeldom() async throws {
        try await store.grant(client: "forgotten", token: "r")
        for round in 0...3 {
            let now = Timestamp.start + .hours(6 * round)
            #expect(try await look(at: now) == [.postponed])
            #expect(try await store.claimGrants(at: now + .hours(6) - .milliseconds(1)).isEmpty)
        }
        #expect(try await store.rows("SELECT refresh_token, claimed_by FROM grant_queue") == [["r", nil]])
    }

    /// The caller's configuration may name a client that the store does not know yet.
    @Test func isUnknownWhateverTheCallerThinks() async throws {
        #expect(try await store.signIn(client: "forgotten", token: "r") == .postponed)
        #expect(try await store.count("grant_queue") == 1)
    }

    /// Only rows that wait for a client now known. A claimed row and a code have a due time of their own.
    @Test func isFreeOnceAnAppNamesIt() async throws {
        for client in ["forgotten", "elsewhere still"] { try await store.grant(client: client, token: "r") }
        #expect(try await look(at: .start) == [.postponed, .postponed])
        try store.register("example", ["app", "web", "forgotten"])
        #expect(try await store.settleGrants(at: .start) == [.grant(.applied, nil)])
        #expect(try await store.rows("SELECT app, client_id, state FROM credential_state") == [["example", "forgotten", "authorized"]])
        #expect(try await store.column("SELECT client_id FROM grant_queue") == ["elsewhere still"])
    }

    @Test func expiresAfterSevenDays() async throws {
        try await store.grant(client: "forgotten", token: "r")
        for day in 0...7 { #expect(try await look(at: .start + .days(day)) == [.postponed]) }
        #expect(try await look(at: .start + .days(7) + .hours(6)) == [.grant(.rejected, .unknownClientExpired)])
        let log = try await store.rows("SELECT client_id, outcome, reason FROM grant_log")
        #expect(log == [["forgotten", "rejected", "unknown_client_expired"]])
    }

    /// The daemon was down for a month, or a backend imported a backlog. The week counts from siwatch's first look.
    @Test func anOldGrantHasItsWeekToo() async throws {
        try await store.grant(client: "forgotten", at: .start - .days(30))
        for day in [0, 6] { #expect(try await look(at: .start + .days(day)) == [.postponed]) }
        #expect(try await look(at: .start + .days(8)) == [.grant(.rejected, .unknownClientExpired)])
    }

    @Test func aNewGrantHasItsOwnWeek() async throws {
        try await store.grant(client: "forgotten")
        _ = try await look(at: .start)
        let later = Timestamp.start + .days(8)
        try await store.grant(client: "forgotten", at: later)
        let settled = try await look(at: later)
        #expect(settled.count == 2 && settled.contains(.postponed) && settled.contains(.grant(.rejected, .unknownClientExpired)))
        #expect(try await store.column("SELECT granted_at FROM grant_queue") == [.at(later)])
    }

    /// The clock is eight days ahead for a moment, and back. That moment does not count, and siwatch does not put the row off until then.
    @Test func aClockAheadShortensNoWeek() async throws {
        try await store.grant(client: "forgotten")
        _ = try await look(at: .start)
        #expect(try await look(at: .start + .days(8), isTrusted: false) == [.postponed])
        #expect(try await look(at: .start + .hours(1)) == [.postponed])
        #expect(try await look(at: .start + .days(7)) == [.postponed])
        #expect(try await look(at: .start + .days(8)) == [.grant(.rejected, .unknownClientExpired)])
    }

    /// The clock was a month behind at the first look. The week begins once it is right.
    @Test func norDoesOneThatIsBehind() async throws {
        try await store.grant(client: "forgotten", at: .start - .days(30))
        #expect(try await look(at: .start - .days(30), isTrusted: false) == [.postponed])
        #expect(try await look(at: .start) == [.postponed])
        #expect(try await look(at: .start + .days(7)) == [.postponed])
    }
}
