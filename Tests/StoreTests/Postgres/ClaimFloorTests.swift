// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import PostgresStore

@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct ClaimFloorTests: ConformanceSuite {
    @Test func risesToWhatWasTakenAWhileAgo() {
        var floor = ClaimFloor<QueuePlace>()
        func claim(after seconds: Int, takes ids: ClosedRange<Int64>? = nil) -> QueuePlace? {
            let begin = floor.begin(at: .start + .seconds(seconds))
            let (first, last) = (ids.map { QueuePlace(id: $0.lowerBound) }, ids.map { QueuePlace(id: $0.upperBound) })
            floor.end(at: .start + .seconds(seconds), from: first, upTo: last)
            return begin
        }
        #expect(claim(after: 0, takes: 1...10) == nil)
        #expect(claim(after: 1, takes: 11...20) == nil)
        #expect(claim(after: 2, takes: 21...30) == nil)
        #expect(claim(after: 3) == QueuePlace(id: 10))
        #expect(claim(after: 4, takes: 31...40) == QueuePlace(id: 10))
        #expect(claim(after: 4) == QueuePlace(id: 30))
        #expect(claim(after: 5) == nil, "everywhere")
        #expect(claim(after: 6) == QueuePlace(id: 30))
        // An operator set the clock back by an hour.
        #expect(claim(after: -3600) == nil)
        #expect(claim(after: -3599) == nil)
    }

    /// While rows are left below, the next claim looks there too. So does a claim after a failed one.
    @Test func staysDownUntilNothingIsBelow() {
        var floor = ClaimFloor<Timestamp>()
        func begin(after seconds: Int) -> Timestamp? { floor.begin(at: .start + .seconds(seconds)) }
        func end(after seconds: Int, from first: Timestamp? = nil) {
            floor.end(at: .start + .seconds(seconds), from: first, upTo: .start + .seconds(seconds))
        }
        for second in 0...3 {
            _ = begin(after: second)
            end(after: second)
        }
        #expect(begin(after: 4) == .start)
        end(after: 4)
        for _ in 1...3 {
            #expect(begin(after: 5) == nil)
            end(after: 5, from: .start - .hours(1))
        }
        #expect(begin(after: 5) == nil)
        #expect(begin(after: 5) == nil, "it failed")
        end(after: 5)
        #expect(begin(after: 5) == .start + .seconds(2))
    }

    /// A claim that finds new rows says nothing about rows that are due again, and the other way round.
    @Test func risesInBothOrders() {
        var floor = ClaimFloor<QueuePlace>()
        func end(after seconds: Int, upTo place: QueuePlace) {
            _ = floor.begin(at: .start + .seconds(seconds))
            floor.end(at: .start + .seconds(seconds), from: nil, upTo: place)
        }
        end(after: 0, upTo: QueuePlace(id: 1))
        end(after: 1, upTo: QueuePlace(dueAt: .start + .seconds(1)))
        end(after: 2, upTo: QueuePlace(id: 3))
        end(after: 4, upTo: QueuePlace(id: 4))
        #expect(floor.begin(at: .start + .seconds(4)) == QueuePlace(id: 3, dueAt: .start + .seconds(1)))
    }

    private func raiseTheFloor() async throws {
        for second in 0...4 {
            try await store.receive("\(second)")
            #expect(try await store.claimNotifications(at: .start + .seconds(second)).count == 1)
        }
    }

    /// A long transaction commits many rows late. One claim after the other takes all of them.
    @Test func whatCommitsLateIsTakenAtOnceOnceItIsFound() async throws {
        try await raiseTheFloor()
        try await store.run("UPDATE notification_queue SET due_at = 0, claimed_by = NULL")
        #expect(try await store.claimNotifications(upTo: 2, at: .start + .milliseconds(4900)).map(\.text) == ["3", "4"])
        #expect(try await store.claimNotifications(upTo: 2, at: .start + .seconds(5)).map(\.text) == ["0", "1"])
        #expect(try await store.claimNotifications(upTo: 2, at: .start + .seconds(5)).map(\.text) == ["2"])
    }

    /// A table that was emptied, or that lost ids with a server, gives ids out again.
    @Test func idsThatBeginAnewAreNotBelow() async throws {
        try await raiseTheFloor()
        try await store.run("TRUNCATE notification_queue RESTART IDENTITY")
        try await store.receive("new")
        // This claim sees that the ids begin anew.
        _ = try await store.claimNotifications(at: .start + .milliseconds(4500))
        #expect(try await store.claimNotifications(at: .start + .milliseconds(4500)).map(\.text) == ["new"])
    }

    @Test func aNewNotificationIsFoundAtOnceAndOneThatCameBackSoon() async throws {
        for second in 0...2 {
            try await store.receive("\(second)")
            #expect(try await store.claimNotifications(at: .start + .seconds(second)).map(\.text) == ["\(second)"])
        }
        // The effect of an undone claim.
        try await store.run("UPDATE notification_queue SET due_at = 0, claimed_by = NULL WHERE payload = '0'")
        try await store.receive("new")
        #expect(try await store.claimNotifications(at: .start + .seconds(3)).map(\.text) == ["new"])
        #expect(try await store.claimNotifications(at: .start + .seconds(5)).map(\.text) == ["0"])
    }

    /// If nothing is due any more, a claim begins at the rows that were due then.
    @Test func anIdleLookBeginsAtWhatIsDueAgain() async throws {
        for text in ["a", "b"] { try await store.receive(text) }
        #expect(try await store.claimNotifications().count == 2)
        for second in 1...4 { #expect(try await store.claimNotifications(at: .start + .seconds(second)).isEmpty) }
        try await store.run("UPDATE notification_queue SET due_at = ? WHERE payload = 'a'", [.at(.start - .minutes(1))])
        try await store.run("UPDATE notification_queue SET due_at = ? WHERE payload = 'b'", [.at(.start + .milliseconds(4500))])
        #expect(try await store.claimNotifications(at: .start + .milliseconds(4500)).map(\.text) == ["b"])
        #expect(try await store.claimNotifications(at: .start + .seconds(5)).map(\.text) == ["a"])
    }

    /// If no row is due again, only one claim in a second begins with such rows.
    @Test func aSignInThatIsDueAgainIsFoundWithinASecond() async throws {
        func claim(after milliseconds: Int, upTo limit: Int = 1) async throws -> [String] {
            let now = Timestamp.start + .milliseconds(milliseconds)
            return try await store.claimGrants(upTo: limit, at: now).compactMap { $0.content?.credential.userID }
        }
        try await store.grant("lost")
        #expect(try await claim(after: 0) == ["lost"])
        for number in 1...8 { try await store.grant("new \(number)") }
        for number in 1...4 { #expect(try await claim(after: 55_500 + 1000 * number) == ["new \(number)"]) }
        #expect(try await claim(after: 60_000) == ["new 5"], "it was looked for half a second ago")
        #expect(try await claim(after: 60_500, upTo: 2) == ["lost", "new 6"])
        #expect(try await claim(after: 60_500, upTo: 2) == ["new 7", "new 8"])
    }

    /// A claim reads in both orders, whichever is first. The floors rise over the claimed rows, and not beyond.
    @Test func aFloorRisesOverBothOrders() async throws {
        func place() async throws -> QueuePlace? { try await store.postgres.claims.run { $0.floors.queues[.grant]?.known } }
        for user in ["one", "two", "three", "four"] { try await store.grant(user) }
        #expect(try await store.claimGrants(upTo: 2).map(\.id) == [1, 2])
        #expect(try await place() == QueuePlace(id: 2, dueAt: .start), "nothing was due again")
        let end = Timestamp.start + StoreUnderTest.lease
        #expect(try await store.claimGrants(upTo: 1, at: end).map(\.id) == [1])
        #expect(try await place() == QueuePlace(id: 2, dueAt: end - .milliseconds(1)), "the second is due still")
        #expect(try await store.claimGrants(upTo: 2, at: end).map(\.id) == [2, 3])
        #expect(try await place() == QueuePlace(id: 3, dueAt: end))
        #expect(try await store.claimGrants(at: end).map(\.id) == [4])
        #expect(try await store.claimGrants(at: end).isEmpty)
        #expect(try await place() == QueuePlace(id: 4, dueAt: end))
    }

    @Test func checksAreFoundInTheSameWay() async throws {
        for user in ["ann", "bob", "eve"] { try await store.signIn(user, token: user) }
        let start = Timestamp.start + .days(2)
        func due(_ user: String, at time: Timestamp) async throws {
            let due = "UPDATE credential SET due_at = ?, claimed_by = NULL, first_check = NULL WHERE user_id = ?"
            try await store.run(due, [.at(time), .text(user)])
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
