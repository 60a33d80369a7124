// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import CredentialTables

@Suite(.eachStore, .timeLimit(.minutes(10))) struct ClaimTests: ConformanceSuite {
    @Test func takesTheOldestFirst() async throws {
        for number in 1...5 { try await store.receive("\(number)") }
        #expect(try await store.claimNotifications(upTo: 0).isEmpty)
        #expect(try await store.claimNotifications(upTo: 2).map(\.text) == ["1", "2"])
        #expect(try await store.claimNotifications(upTo: 2).map(\.text) == ["3", "4"])
        #expect(try await store.claimNotifications(upTo: 2).map(\.text) == ["5"])
    }

    @Test func handsOutWhatWasInserted() async throws {
        try await store.receive("{\"payload\":\"jws\"}", at: .start - .minutes(1))
        try await store.grant(token: "r.1", email: EmailAddress("a@example.com", isPrivate: true), at: .start - .minutes(2))
        try await store.grant("somebody", client: "web", at: .start - .minutes(1))

        let notification = try #require(try await store.claimNotifications().first)
        #expect(notification.text == "{\"payload\":\"jws\"}")
        #expect(notification.receivedAt == .start - .minutes(1))
        #expect(notification.claim.attempts == 1)

        let grants = try await store.claimGrants()
        #expect(grants.map(\.grantedAt) == [.start - .minutes(2), .start - .minutes(1)])
        let contents = try grants.map { try #require($0.content) }
        #expect(contents[0].credential == CredentialID(clientID: "app", userID: "user"))
        #expect(contents[0].refreshToken == Secret("r.1"))
        #expect(contents[0].address == EmailAddress("a@example.com", isPrivate: true))
        #expect(contents[1].credential == CredentialID(clientID: "web", userID: "somebody"))
        #expect(contents[1].refreshToken == nil)
        #expect(contents[1].address == nil)
    }

    @Test func leavesNothingToASecondClaimant() async throws {
        try await store.signIn(token: "r")
        let due = Timestamp.start + .days(2)
        try await store.receive()
        try await store.grant("next")
        #expect(try await store.claimNotifications(at: due).count == 1)
        #expect(try await store.claimGrants(at: due).count == 1)
        #expect(try await store.claimCredentials(at: due).count == 1)

        #expect(try await store.claimNotifications(at: due).isEmpty)
        #expect(try await store.claimGrants(at: due).isEmpty)
        #expect(try await store.claimCredentials(at: due).isEmpty)
    }

    @Test func comesBackWhenTheLeaseEnds() async throws {
        try await store.receive()
        _ = try await store.claimNotifications()
        let end = Timestamp.start + StoreUnderTest.lease
        #expect(try await store.claimNotifications(at: end - .milliseconds(1)).isEmpty)
        #expect(try await store.claimNotifications(at: end).map(\.claim.attempts) == [2])
    }

    /// An endpoint is open to the world. A flood of posts must not fill the memory.
    @Test func longRubbishIsClaimedInPortions() async throws {
        try await store.receive(600, bytes: 65_536)
        let claims = try await [store.claimNotifications(upTo: 8192), store.claimNotifications(upTo: 8192)]
        #expect(claims.map(\.count) == [512, 88])
        #expect(claims[1].first?.id == 513)
    }

    @Test func manyClaimantsShareTheRows() async throws {
        try await store.receive(100)
        let claimed = try await withThrowingTaskGroup { group in
            for _ in 1...20 { group.addTask { try await store.claimNotifications(upTo: 7).map(\.id) } }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(claimed.count == 100)
        #expect(Set(claimed).count == 100)
    }

    /// An operator set the clock back by a day. Rows that were put off do not wait for a day.
    @Test func aDueTimeThatNobodySetsIsNoReasonToWait() async throws {
        try await store.receive()
        try await store.grant()
        _ = try await store.claimNotifications(at: .start + .days(1))
        _ = try await store.claimGrants(at: .start + .days(1))
        #expect(try await store.claimNotifications().count == 1)
        #expect(try await store.claimGrants().count == 1)
    }

    @Test func doesNotTouchWhatIsPutOffWithinReason() async throws {
        try await store.receive()
        let claimed = try await store.claimNotifications()
        let later = Timestamp.start + .minutes(11)
        _ = try await store.settle(.notification(claimed[0], .postponed(until: later)))
        #expect(try await store.claimNotifications(at: later - .milliseconds(1)).isEmpty)
        #expect(try await store.claimNotifications(at: later).count == 1)
    }
}

extension ClaimedNotification {
    var text: String { String(decoding: payload, as: UTF8.self) }
}

/// A row whose claims end without a settlement may be the one that kills the process.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct SuspectTests: ConformanceSuite {
    /// Claims all due rows and dies, this many times.
    ///
    /// - Returns: the end of the last lease.
    private func crash(times: Int, from start: Timestamp = .start) async throws -> Timestamp {
        var now = start
        for _ in 0..<times {
            _ = try await store.claimNotifications(at: now)
            _ = try await store.claimGrants(at: now)
            now = now + StoreUnderTest.lease
        }
        return now
    }

    @Test func isClaimedAloneAfterTwoAttempts() async throws {
        try await store.receive(3)
        try await store.grant("one")
        try await store.grant("two")
        let now = try await crash(times: 2)
        for _ in 1...3 { #expect(try await store.claimNotifications(at: now).map(\.claim.attempts) == [3]) }
        for _ in 1...2 { #expect(try await store.claimGrants(at: now).map(\.claim.attempts) == [3]) }
        #expect(try await store.claimNotifications(at: now).isEmpty)
    }

    @Test func neverComesWithOthers() async throws {
        try await store.receive("suspect")
        let now = try await crash(times: 2)
        for number in 1...3 { try await store.receive("\(number)", at: now) }
        var rounds: [[String]] = []
        while case let claimed = try await store.claimNotifications(at: now), !claimed.isEmpty { rounds.append(claimed.map(\.text)) }
        #expect(rounds == [["1", "2", "3"], ["suspect"]])
    }

    @Test func isPoisonAfterFiveAttempts() async throws {
        try await store.receive()
        try await store.grant()
        var now = try await crash(times: 4)
        #expect(try await store.claimNotifications(at: now).map(\.claim.isPoison) == [false])
        #expect(try await store.claimGrants(at: now).map(\.claim.isPoison) == [false])
        now = now + StoreUnderTest.lease
        let notification = try await store.claimNotifications(at: now)[0]
        let grant = try await store.claimGrants(at: now)[0]
        #expect(notification.claim.isPoison)
        #expect(grant.claim.isPoison)

        let poison = Settlement.notification(notification, .rejected(.poison, detail: "five times"))
        let settled = try await store.settle([poison, .grant(grant, .rejected(.poison))], at: now)
        #expect(settled.results == [.quarantined(.poison), .grant(.rejected, .poison)])
        let kept = try await store.rows("SELECT reason FROM notification_quarantine UNION ALL SELECT reason FROM grant_log")
        #expect(kept == [["poison"], ["poison"]])
    }

    @Test func isASuspectNoLongerOnceItWasPutOff() async throws {
        try await store.receive()
        let now = try await crash(times: 4)
        #expect(try await store.settleNotifications(at: now, as: .postponed(until: now)) == [.postponed])
        #expect(try await store.claimNotifications(at: now).map(\.claim.attempts) == [1])
    }
}

/// One description of a statement, which a server runs once and SQLite for each row.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct RowStatementTests: ConformanceSuite {
    private static let key = ["user_id", "client"]
    private static let insert = RowStatement.insert(into: "canary", key, shared: ["asked_at"])
    private static let read = RowStatement.read("t.asked_at", of: "canary", key: key, lockedBy: "t.user_id, t.client")

    private func ask(_ store: some TableStore) async throws -> [[Int64]] {
        try await store.transaction { connection in
            func row(_ user: String) -> [ColumnValue] { [user.columnValue, 1.columnValue] }
            try connection.execute(Self.insert, [row("b"), row("a"), row("c")], [7.columnValue])
            try connection.execute(
                .update("canary", key: Self.key, ["asked_at"]),
                [row("a") + [8.columnValue], row("c") + [9.columnValue]]
            )
            try connection.execute(.delete(from: "canary", key: Self.key, where: "t.asked_at = 7"), [row("a"), row("b")])
            var found: [[Int64]] = []
            try connection.forEachRow(of: connection.ask(Self.read, [row("c"), row("nobody"), row("b"), row("a")])) { place, row in
                found.append([Int64(place), row.integer(at: 0)])
            }
            return found.sorted { $0[0] < $1[0] }
        }
    }

    @Test func eachRowHasItsOwnValuesAndItsPlace() async throws {
        let tables = try #require(store.ports as? any TableStore)
        #expect(try await ask(tables) == [[0, 9], [3, 8]])
    }
}
