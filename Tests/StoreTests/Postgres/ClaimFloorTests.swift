// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import PostgresStore

/// Claims pass by what was taken long ago, and look everywhere now and then.
@Suite struct ClaimFloorTests {
    @Test func risesToWhatWasTakenAWhileAgo() {
        var floor = ClaimFloor<QueuePlace>()
        func begin(after seconds: Int) -> Int64? { floor.begin(at: .start + .seconds(seconds))?.id }
        func end(after seconds: Int, upTo id: Int64) { floor.end(at: .start + .seconds(seconds), upTo: QueuePlace(id: id)) }
        #expect(begin(after: 0) == nil)
        end(after: 0, upTo: 10)
        #expect(begin(after: 1) == nil)
        end(after: 1, upTo: 20)
        #expect(begin(after: 2) == nil)
        end(after: 2, upTo: 30)
        #expect(begin(after: 3) == 10)
        end(after: 4, upTo: 40)
        #expect(begin(after: 4) == 30)
        #expect(begin(after: 5) == nil, "everywhere")
        #expect(begin(after: 6) == 30)
        // The clock was set back by an hour.
        #expect(begin(after: -3600) == nil)
        #expect(begin(after: -3599) == nil)
    }

    /// A claim that finds new rows says nothing of those that are due again, and the other way round.
    @Test func risesInBothOrders() {
        var floor = ClaimFloor<QueuePlace>()
        func end(after seconds: Int, upTo place: QueuePlace) { floor.end(at: .start + .seconds(seconds), upTo: place) }
        _ = floor.begin(at: .start)
        end(after: 0, upTo: QueuePlace(id: 1))
        end(after: 1, upTo: QueuePlace(dueAt: .start + .seconds(1)))
        end(after: 2, upTo: QueuePlace(id: 3))
        end(after: 4, upTo: QueuePlace(id: 4))
        let low = floor.begin(at: .start + .seconds(4))
        #expect(low?.id == 3 && low?.dueAt == .start + .seconds(1))
    }

    @Test func aNewNotificationIsFoundAtOnceAndOneThatCameBackSoon() async throws {
        let store = try StoreKind.postgres.make()
        for second in 0...2 {
            try await store.receive("\(second)")
            #expect(try await store.claimNotifications(at: .start + .seconds(second)).map(\.text) == ["\(second)"])
        }
        // As a claim does that is undone.
        try await store.run("UPDATE notification_queue SET due_at = 0, claimed_by = NULL WHERE payload = '0'")
        try await store.receive("new")
        #expect(try await store.claimNotifications(at: .start + .seconds(3)).map(\.text) == ["new"])
        #expect(try await store.claimNotifications(at: .start + .seconds(5)).map(\.text) == ["0"])
    }

    /// Where nothing is due any more, a claim begins at what was due then.
    @Test func anIdleLookBeginsAtWhatIsDueAgain() async throws {
        let store = try StoreKind.postgres.make()
        for text in ["a", "b"] { try await store.receive(text) }
        #expect(try await store.claimNotifications().count == 2)
        for second in 1...4 { #expect(try await store.claimNotifications(at: .start + .seconds(second)).isEmpty) }
        try await store.run("UPDATE notification_queue SET due_at = ? WHERE payload = 'a'", [.at(.start - .minutes(1))])
        try await store.run("UPDATE notification_queue SET due_at = ? WHERE payload = 'b'", [.at(.start + .milliseconds(4500))])
        #expect(try await store.claimNotifications(at: .start + .milliseconds(4500)).map(\.text) == ["b"])
        #expect(try await store.claimNotifications(at: .start + .seconds(5)).map(\.text) == ["a"])
    }

    @Test func checksAreFoundInTheSameWay() async throws {
        let store = try StoreKind.postgres.make()
        for user in ["ann", "bob", "eve"] { try await store.signIn(user, token: user) }
        let start = Timestamp.start + .days(2)
        func due(_ user: String, at time: Timestamp) async throws {
            try await store.run(
                "UPDATE credential SET due_at = ?, claimed_by = NULL, first_check = NULL WHERE user_id = ?",
                [.at(time), .text(user)]
            )
        }
        func claim(after seconds: Int) async throws -> [String] {
            try await store.claimCredentials(at: start + .seconds(seconds)).map(\.id.userID)
        }
        for (second, user) in ["ann", "bob", "eve"].enumerated() { try await due(user, at: start + .seconds(second)) }
        for (second, user) in ["ann", "bob", "eve"].enumerated() { #expect(try await claim(after: second) == [user]) }
        try await due("ann", at: start - .minutes(1))
        try await due("bob", at: start + .seconds(3))
        #expect(try await claim(after: 3) == ["bob"])
        #expect(try await claim(after: 5) == ["ann"])
    }
}
