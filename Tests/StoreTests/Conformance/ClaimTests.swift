// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A claim takes due rows, oldest first, and keeps them from other claims until its lease ends.
@Suite(.schemas, .timeLimit(.minutes(10))) struct ClaimTests {
    @Test(arguments: StoreKind.allCases)
    func takesTheOldestFirst(_ kind: StoreKind) async throws {
        let store = try kind.make()
        for number in 1...5 { try await store.receive("\(number)") }
        #expect(try await store.claimNotifications(upTo: 2).map(\.text) == ["1", "2"])
        #expect(try await store.claimNotifications(upTo: 2).map(\.text) == ["3", "4"])
        #expect(try await store.claimNotifications(upTo: 2).map(\.text) == ["5"])
    }

    @Test(arguments: StoreKind.allCases)
    func handsOutWhatWasInserted(_ kind: StoreKind) async throws {
        let store = try kind.make()
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

    @Test(arguments: StoreKind.allCases)
    func leavesNothingToASecondClaimant(_ kind: StoreKind) async throws {
        let store = try kind.make()
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

    @Test(arguments: StoreKind.allCases)
    func comesBackWhenTheLeaseEnds(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive()
        _ = try await store.claimNotifications()
        let end = Timestamp.start + StoreUnderTest.lease
        #expect(try await store.claimNotifications(at: end - .milliseconds(1)).isEmpty)
        #expect(try await store.claimNotifications(at: end).map(\.claim.attempts) == [2])
    }

    @Test(arguments: StoreKind.allCases)
    func takesNoMoreThanItsLimit(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive(3)
        #expect(try await store.claimNotifications(upTo: 0).isEmpty)
        #expect(try await store.claimNotifications(upTo: 2).count == 2)
    }

    /// An endpoint is open to the world. A flood of posts must not fill the memory.
    @Test(arguments: StoreKind.allCases)
    func longRubbishIsClaimedInPortions(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive(600, bytes: 65_536)
        let claims = try await [store.claimNotifications(upTo: 8192), store.claimNotifications(upTo: 8192)]
        #expect(claims.map(\.count) == [512, 88])
        #expect(claims[1].first?.id == 513)
    }

    @Test(arguments: StoreKind.allCases)
    func manyClaimantsShareTheRows(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive(100)
        let claimed = try await withThrowingTaskGroup { group in
            for _ in 1...20 { group.addTask { try await store.claimNotifications(upTo: 7).map(\.id) } }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(claimed.count == 100)
        #expect(Set(claimed).count == 100)
    }

    /// An operator set the clock back by a day. Rows that were put off do not wait for a day.
    @Test(arguments: StoreKind.allCases)
    func aDueTimeThatNobodySetsIsNoReasonToWait(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.receive()
        try await store.grant()
        _ = try await store.claimNotifications(at: .start + .days(1))
        _ = try await store.claimGrants(at: .start + .days(1))
        #expect(try await store.claimNotifications().count == 1)
        #expect(try await store.claimGrants().count == 1)
    }

    @Test(arguments: StoreKind.allCases)
    func doesNotTouchWhatIsPutOffWithinReason(_ kind: StoreKind) async throws {
        let store = try kind.make()
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
