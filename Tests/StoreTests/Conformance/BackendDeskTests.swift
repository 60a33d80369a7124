// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct BackendDeskTests: ConformanceSuite {
    private static func key(_ key: String, _ digest: UInt8 = 1, client: String = "backend") -> RequestKey {
        RequestKey(client: client, key: key, digest: [digest])
    }

    @Test func rowsAreThoseOfABackend() async throws {
        let address = EmailAddress("é@example.com", isPrivate: true)
        let told = try await store.ports.append(
            [
                .notification(Array("{}".utf8)),
                .signIn(ToldSignIn(clientID: "app", userID: "ann", proof: .refreshToken(Secret("r")), address: address), key: nil),
                .signIn(ToldSignIn(clientID: "app", proof: .code(Secret("c"), redirectURI: nil, nonce: "n")), key: nil),
                .signIn(ToldSignIn(clientID: "web", userID: "bob", signedInAt: .start), key: nil),
                .deletion(CredentialID(clientID: "app", userID: "eve"), requestedAt: nil, key: nil),
                .deletion(CredentialID(clientID: "app", userID: "eve"), requestedAt: .start, key: nil),
                // Dated ahead, it would revoke the sign-in that comes next.
                .deletion(CredentialID(clientID: "app", userID: "eve"), requestedAt: .start + .hours(2), key: nil),
            ],
            at: .start + .hours(1)
        )
        let times = [Timestamp](repeating: .start + .hours(1), count: 3) + [.start, .start + .hours(1), .start, .start + .hours(1)]
        let rows = zip([1, 1, 2, 3, 1, 2, 3], times).map { RowReference(id: $0, time: $1) }
        // A backend may tell two users with one time. The user is part of the reference then.
        let ofUsers = [1: "ann", 3: "bob", 4: "eve", 5: "eve", 6: "eve"]
        let expected = rows.indices.map { RowReference(id: rows[$0].id, time: rows[$0].time, userID: ofUsers[$0]) }
        #expect(told == expected.map { .row($0) })
        #expect(expected[1].names(rows[1], of: "ann") && !expected[1].names(rows[1], of: "bob") && rows[1].names(rows[1], of: "bob"))
        #expect(expected.allSatisfy { RowReference("\($0)") == $0 })
        let columns = "client_id, user_id, refresh_token, authorization_code, redirect_uri, nonce, email, email_is_private, granted_at"
        let hour = SQLValue.at(.start + .hours(1))
        #expect(
            try await store.rows("SELECT \(columns) FROM grant_queue ORDER BY id") == [
                ["app", "ann", "r", nil, nil, nil, "é@example.com", 1, hour],
                ["app", nil, nil, "c", nil, "n", nil, nil, hour],
                ["web", "bob", nil, nil, nil, nil, nil, nil, .at(.start)],
            ]
        )
        let requests = try await store.rows("SELECT client_id, user_id, requested_at FROM revocation_queue ORDER BY id")
        #expect(requests == [["app", "eve", hour], ["app", "eve", .at(.start)], ["app", "eve", hour]])
        let found = try await store.ports.claimNotifications(upTo: 9, at: .start, lease: .minutes(1), suspects: true).map(\.payload)
        #expect(found == [Array("{}".utf8)])
    }

    @Test func aRefusedRowKeepsNone() async throws {
        let good = BackendRequest.notification(Array("{}".utf8))
        await #expect(throws: StoreError.self) { try await store.ports.append([good, .notification([])], at: .start) }
        #expect(try await store.count("notification_queue") == 0)
    }

    @Test func aKeyTellsOnceForEachClientAndForADay() async throws {
        func tell(_ key: RequestKey?, at time: Timestamp = .start) async throws -> AppendedRequest {
            try await store.ports.append([.deletion(CredentialID(clientID: "app", userID: "ann"), requestedAt: nil, key: key)], at: time)[0]
        }
        func row(_ id: Int64, at time: Timestamp = .start) -> AppendedRequest { .row(RowReference(id: id, time: time, userID: "ann")) }
        #expect(try await tell(Self.key("é")) == row(1))
        #expect(try await tell(Self.key("é"), at: .start + .hours(1)) == row(1))
        #expect(try await tell(Self.key("é", 2)) == .keyUsed)
        #expect(try await tell(Self.key("é", client: "other")) == row(2))
        #expect(try await tell(nil) == row(3))
        #expect(try await store.count("revocation_queue") == 3)
        #expect(try await store.ports.deletionOutcome(1)?.userID == "ann")
        // The row may have left its queue, and may be erased.
        try await store.run(
            """
            INSERT INTO revocation_log (request, client_id, user_id, requested_at, settled_at, outcome)
            SELECT id, client_id, user_id, requested_at, 2, 'no_token' FROM revocation_queue WHERE id = 1
            """
        )
        try await store.run("DELETE FROM revocation_queue")
        #expect(try await tell(Self.key("é")) == row(1))
        try await store.run("DELETE FROM revocation_log")
        #expect(try await tell(Self.key("é")) == .erased)
        try await store.ports.forget(at: .start + .hours(24), naming: PlainSealer())
        #expect(try await tell(Self.key("é")) == .erased)
        try await store.ports.forget(at: .start + .hours(24) + .milliseconds(1), naming: PlainSealer())
        #expect(try await tell(Self.key("é")) == row(4))
    }

    /// Two replicas are told the same, because the first answer was lost.
    @Test func aKeyThatIsToldTwiceAtOnceTellsOnce() async throws {
        let request = BackendRequest.deletion(CredentialID(clientID: "app", userID: "ann"), requestedAt: nil, key: Self.key("k"))
        let answers = try await withThrowingTaskGroup { group in
            for _ in 1...8 { group.addTask { try await store.ports.append([request], at: .start)[0] } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(answers.map { "\($0)" }).count == 1)
        #expect(try await store.count("revocation_queue") == 1)
    }

    @Test func outcomesAreThoseOfTheViews() async throws {
        try await store.grant("ann", token: "r")
        try await store.grant(nil, code: "c")
        try await store.grant("mistyped", code: "d")
        let waiting = try await store.ports.signInOutcomes([1, 2, 9])
        #expect(waiting.mapValues(\.row) == [1: RowReference(id: 1, time: .start), 2: RowReference(id: 2, time: .start)])
        #expect(waiting.mapValues(\.outcome) == [1: "waiting", 2: "waiting"] && waiting[1]?.user == nil)
        try await store.settleGrants(at: .start)
        let codes = try await store.claimCodes()
        let grant = Grant(grantedAt: .start + .milliseconds(7))
        let id = CredentialID(clientID: "app", userID: "bob")
        let isBob = CodeVerdict.exchanged(grant, id, requestedAt: .start, answeredAt: .start, realUserStatus: 2)
        let isAnother = CodeVerdict.rejected(.userMismatch, detail: "a few words")
        _ = try await store.settle(codes.map { .code($0, $0.content?.userID == nil ? isBob : isAnother) })
        let settled = try await store.ports.signInOutcomes([1, 2, 3])
        #expect(settled[1]?.row == waiting[1]?.row && settled[2]?.row == waiting[2]?.row)
        #expect(settled[1]?.signedInAt == .start && settled[1]?.user?.state == "authorized" && settled[1]?.realUserStatus == nil)
        let bob = try #require(settled[2])
        #expect(bob.userID == "bob" && bob.isSignedIn && bob.realUserStatus == 2 && bob.user?.userID == "bob")
        // The time that Apple says, and not that of the row.
        #expect(bob.signedInAt == grant.grantedAt && bob.user?.changedAt == grant.grantedAt)
        #expect(settled[3]?.detail == "a few words" && bob.detail == nil)
        #expect(settled[3]?.outcome == "rejected" && settled[3]?.reason == "user_mismatch" && settled[3]?.isSignedIn == false)
        #expect(try await store.ports.userState(of: "ann", in: "example")?.reason == "granted")
        #expect(try await store.ports.userState(of: "ann", in: "other") == nil)
    }

    @Test func theFeedHasItsBounds() async throws {
        let empty = try await store.ports.changes(after: 0, of: nil, upTo: 9)
        #expect(empty == ChangePage(changes: [], oldest: 1, newest: .beforeAll, last: nil))
        #expect(!empty.isGone(after: 0) && empty.isGone(after: 1) && !empty.isGone(after: .beforeAll))
        for user in ["a", "b", "c", "d"] { try await store.signIn(user, token: user) }
        let page = try await store.ports.changes(after: 1, of: "example", upTo: 2)
        #expect(page.changes.map(\.userID) == ["b", "c"] && page.changes.map(\.toState) == ["authorized", "authorized"])
        let first = try #require(try await store.ports.changes(after: 0, of: nil, upTo: 1).changes.first).row
        #expect(page.oldest == 1 && page.newest.id == 4 && page.last == first)
        // After a restore another change has its number.
        #expect(!page.isGone(after: first) && page.isGone(after: RowReference(id: 1, time: first.time + .milliseconds(1))))
        #expect(try await store.ports.changes(after: 0, of: "other", upTo: 9).changes.isEmpty)
        // A forgotten user's change is erased, which loses a follower nothing.
        let second = try #require(page.changes.first).row
        try await store.run("DELETE FROM credential_change WHERE id = 2")
        let erased = try await store.ports.changes(after: 2, of: nil, upTo: 9)
        #expect(erased.changes.map(\.id) == [3, 4] && !erased.isGone(after: second))
        #expect(erased.isGone(after: RowReference(id: 2, time: first.time - .milliseconds(1))))
        try await store.run("DELETE FROM credential_change WHERE id < 3")
        let cut = try await store.ports.changes(after: 2, of: nil, upTo: 9)
        #expect(cut.changes.map(\.id) == [3, 4] && !cut.isGone(after: 2) && cut.isGone(after: 1) && cut.isGone(after: 5))
    }
}
