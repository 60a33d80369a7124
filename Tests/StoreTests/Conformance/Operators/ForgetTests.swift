// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import CredentialTesting
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct ForgetTests: ConformanceSuite {
    private static let user = "000123.a1b2c3.0042"
    private static let alias = PlainSealer().pseudonym(of: user)
    private static let ended = Timestamp.start + .days(3)
    private static let now = Timestamp.start + .days(10)

    /// A user with a row in every log, whose consent has ended, and another user.
    private func history() async throws {
        try await store.signIn("another", token: "another")
        try await store.signIn(Self.user, token: "r", email: EmailAddress("a@example.com"))
        try await store.refresh(.valid, at: .start + .days(2))
        try await store.notify(.emailDisabled(nil), Self.user, at: .start + .days(1), now: .start + .days(2))
        try await store.notify(.consentRevoked, Self.user, at: Self.ended)
        try await store.receive("names \(Self.user)", at: Self.ended)
        try await store.settleNotifications(at: Self.ended, as: .rejected(.malformed, detail: ""))
        try await store.requestRevocation(Self.user, at: Self.ended + .seconds(1))
        #expect(try await store.settleRequests(at: Self.now) == [.revocation(.noToken)])
    }

    private func forgotten(_ answer: OperatorAnswer?) throws -> Erasure {
        guard case .forgotten(let erasure) = answer else {
            Issue.record("\(String(describing: answer))")
            throw StoreError.busy
        }
        return erasure
    }

    private func tables(holding text: String) async throws -> [String] {
        var found: [String] = []
        for table in StoredTable.all {
            let columns =
                table.columns.filter { $0.form != .payload }.map(\.name)
                + (table.columns.contains { $0.form == .payload } ? ["CAST(payload AS BLOB)"] : [])
            let rows = try await store.rows("SELECT \(columns.joined(separator: ", ")) FROM \(table.name)")
            if rows.joined().contains(where: { $0.holds(text) }) { found.append(table.name) }
        }
        return found
    }

    @Test func nothingNamesTheUserAnyMore() async throws {
        try await history()
        let before = ["user_event", "credential", "notification_log", "notification_quarantine", "grant_log", "revocation_log"]
        #expect(try await tables(holding: Self.user) == before + ["credential_change"])
        let erasure = try forgotten(try await store.forget(Self.user, at: Self.now))
        #expect(erasure.forgottenUntil == ["example": Self.ended])
        let once = ["user_event", "credential", "notification_quarantine", "grant_log"].map { ($0, 1) }
        #expect(erasure.erasedRows == Dictionary(uniqueKeysWithValues: once + [("notification_log", 2), ("credential_change", 4)]))
        #expect(try await tables(holding: Self.user) == [])
        #expect(try await tables(holding: "a@example.com") == [])
        #expect(try await store.column("SELECT user_id FROM user_state") == ["another"])
        #expect(try await store.personalData(of: Self.user).isEmpty)
        #expect(try await store.personalData(of: "another").isEmpty == false)
        #expect(try await store.forget(Self.user, at: Self.now) == .unknownUser)
    }

    @Test func theCountsAreThoseOfTheUsersThatStay() async throws {
        try await history()
        try await store.reject("another", at: Self.now)
        _ = try await store.forget(Self.user, at: Self.now)
        #expect(try await store.rows("SELECT state, count FROM credential_count WHERE count <> 0") == [["authorized", 1]])
        #expect(try await store.rows("SELECT pending FROM app WHERE name = 'example'") == [[1]])
        #expect(try await store.column("SELECT value FROM counter WHERE name = 'quarantine_unsigned_rows'") == [0])
        #expect(try await store.forget("another", evenIfAuthorized: true, at: Self.now) != nil)
        #expect(try await store.count("credential_count WHERE count <> 0") == 0)
        #expect(try await store.column("SELECT pending FROM app WHERE name = 'example'") == [0])
    }

    @Test func nothingOldBringsTheUserBack() async throws {
        try await history()
        _ = try await store.forget(Self.user, at: Self.now)
        #expect(try await store.signIn(Self.user, token: "r", email: EmailAddress("a@example.com"), now: Self.now) == .grant(.stale, nil))
        #expect(try await store.signIn(Self.user, client: "web", at: Self.ended, now: Self.now) == .grant(.stale, nil))
        #expect(try await store.notify(.consentRevoked, Self.user, at: Self.ended, now: Self.now) == .notification(.duplicate))
        let address = EmailAddress("a@example.com")
        #expect(try await store.notify(.emailEnabled(address), Self.user, at: .start, now: Self.now) == .notification(.duplicate))
        #expect(try await tables(holding: Self.user) == [])
        #expect(try await tables(holding: "a@example.com") == [])
        #expect(try await store.count("credential WHERE user_id <> 'another'") == 0)
        let log = try await store.rows("SELECT user_id, outcome, payload FROM notification_log")
        #expect(log == [[.text(Self.alias), "duplicate", nil], [.text(Self.alias), "duplicate", nil]])
        let shown = try await store.rows("SELECT user_id, outcome FROM grant_log WHERE user_id <> 'another'")
        #expect(shown == [[.text(Self.alias), "stale"], [.text(Self.alias), "stale"]])
    }

    /// A code names nobody until Apple has exchanged it, so `forget` does not see that it waits.
    @Test func anOldCodeDoesNotBringTheUserBack() async throws {
        try await history()
        for time in [Self.ended, Self.ended + .seconds(1)] { try await store.grant(nil, code: "c", at: time) }
        let codes = try await store.claimCodes(upTo: 2, at: Self.now)
        _ = try await store.forget(Self.user, at: Self.now)
        let id = CredentialID(clientID: "app", userID: Self.user)
        func exchange(_ code: ClaimedCode) async throws -> Settled {
            // By the id_token, which Apple issues at the exchange.
            let grant = Grant(grantedAt: Self.now, token: .sealed(Secret("issued"), for: id, grantedAt: Self.now))
            let verdict = CodeVerdict.exchanged(grant, id, requestedAt: Self.now, answeredAt: Self.now)
            return try await store.settle(.code(code, verdict), at: Self.now)
        }
        #expect(try await exchange(codes[0]) == .grant(.stale, nil))
        #expect(try await tables(holding: Self.user) == [])
        #expect(try await store.sealedTokens == 1, "that of the other user")
        #expect(try await exchange(codes[1]) == .grant(.applied, nil), "a later sign-in is news")
    }

    /// A new consent makes a new user, and an old withdrawal that comes again does not end it.
    @Test func aNewSignInCounts() async throws {
        try await history()
        _ = try await store.forget(Self.user, at: Self.now)
        let again = Self.ended + .milliseconds(1)
        #expect(try await store.signIn(Self.user, token: "new", at: again, now: Self.now) == .grant(.applied, nil))
        #expect(try await store.notify(.consentRevoked, Self.user, at: Self.ended, now: Self.now) == .notification(.duplicate))
        let state = "SELECT state, changed_at, email FROM user_state WHERE user_id = '\(Self.user)'"
        #expect(try await store.rows(state) == [["authorized", .at(again), nil]])
        #expect(try await store.notify(.consentRevoked, Self.user, at: again + .seconds(1), now: Self.now) == .notification(.applied))
        #expect(try await store.rows(state) == [["revoked", .at(again + .seconds(1)), nil]])
        let erasure = try forgotten(try await store.forget(Self.user, at: Self.now))
        #expect(erasure.forgottenUntil == ["example": again + .seconds(1)])
        #expect(try await store.signIn(Self.user, at: again, now: Self.now) == .grant(.stale, nil))
    }

    @Test func whoIsSignedInIsForgottenOnlyOnDemand() async throws {
        try await store.signIn(token: "r")
        #expect(try await store.forget() == .stillAuthorized(apps: ["example"]))
        #expect(try await store.sealedTokens == 1)
        #expect(try forgotten(try await store.forget(evenIfAuthorized: true)).forgottenUntil == ["example": .start])
        #expect(try await store.count("credential") == 0)
    }

    /// Work that waits would bring the user back, and a request to revoke must not be lost.
    @Test func whoHasWaitingRowsIsNotForgotten() async throws {
        try await history()
        try await store.grant(Self.user, at: Self.now)
        try await store.requestRevocation(Self.user, at: Self.now)
        let waiting: [OperatorAnswer.WaitingRow] = [.init(table: "grant_queue", id: 3), .init(table: "revocation_queue", id: 2)]
        #expect(try await store.forget(Self.user, evenIfAuthorized: true, at: Self.now) == .stillWaiting(waiting))
        #expect(try await store.count("revocation_queue") == 1)
        #expect(try await store.count("user_state WHERE user_id = '\(Self.user)'") == 1)
    }

    @Test func anAnswerUnderWayBringsNobodyBack() async throws {
        try await store.signIn(token: "r")
        let due = try await store.claimCredentials(at: .start + .days(2))[0]
        _ = try await store.forget(evenIfAuthorized: true, at: .start + .days(2))
        #expect(try await store.settle(.refresh(due, .valid(at: .start + .days(2))), at: .start + .days(2)) == .superseded)
        #expect(try await store.count("credential") == 0)
        #expect(try await store.count("user_event WHERE user_id = 'user'") == 0)
    }

    /// The receipts stay, under a name that only the key tells.
    @Test func theReceiptStaysAndNamesNobody() async throws {
        try await history()
        let erasure = try forgotten(try await store.forget(Self.user, at: Self.now))
        #expect(erasure.keptReceipts == [1])
        #expect(try await store.ports.revocations(of: Self.user).isEmpty)
        #expect(try await store.ports.revocations(of: Self.alias).revocations.map(\.outcome) == ["no_token"])
        #expect(try await store.rows("SELECT outcome FROM revocation_outcome WHERE id = 1") == [["no_token"]])
        #expect(!JSONText.holds(erasure, Self.user))
    }

    /// The newest row of the feed stays without its name, so that a follower sees what is gone.
    @Test func aFollowerSeesThatOlderChangesAreGone() async throws {
        try await history()
        let newest = try await store.column("SELECT MAX(id) FROM credential_change")
        _ = try await store.forget(Self.user, at: Self.now)
        #expect(try await store.column("SELECT MAX(id) FROM credential_change") == newest)
        #expect(try await store.column("SELECT user_id FROM credential_change ORDER BY id") == ["another", .text(Self.alias)])
        try await store.ports.maintain(at: Self.now + .days(400))
        #expect(try await store.column("SELECT id FROM credential_change") == newest)
    }

    /// A `sub` is the same in all apps of a team.
    @Test func oneAppAlone() async throws {
        try await history()
        try await store.signIn(Self.user, client: "elsewhere", token: "e", at: Self.ended)
        #expect(try await store.forget(Self.user, at: Self.now) == .stillAuthorized(apps: ["other"]))
        #expect(try await store.forget(Self.user, in: "nowhere", at: Self.now) == .unknownApp(known: ["example", "other"]))
        #expect(try forgotten(try await store.forget(Self.user, in: "example", at: Self.now)).forgottenUntil.keys.sorted() == ["example"])
        #expect(try await store.rows("SELECT app, state FROM user_state WHERE user_id = '\(Self.user)'") == [["other", "authorized"]])
        #expect(try await store.column("SELECT client_id FROM grant_log WHERE user_id = '\(Self.user)'") == ["elsewhere"])
        #expect(try await store.sealedTokens == 2)
    }
}

extension JSONText {
    fileprivate static func holds(_ value: some Encodable, _ text: String) -> Bool { (try? encode(value).contains(text)) ?? true }
}

extension SQLValue {
    fileprivate func holds(_ text: String) -> Bool {
        switch self {
        case .null, .integer: false
        case .text(let value): value.contains(text)
        case .bytes(let bytes): String(decoding: bytes, as: UTF8.self).contains(text)
        }
    }
}
