// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A user who has signed in again is never reported revoked in between: an event waits for a newer sign-in that is still queued.
@Suite(.timeLimit(.minutes(10))) struct GrantsFirstTests {
    private static let event = Timestamp.start + .hours(1)
    private static let signIn = event + .seconds(1)

    /// A user whose consent was withdrawn and given again, with both still in their queues.
    private func story(_ kind: StoreKind) async throws -> StoreUnderTest {
        let store = try kind.make()
        try await store.signIn(token: "old")
        try await store.grant(token: "new", at: Self.signIn)
        try await store.receive(at: Self.signIn)
        return store
    }

    private func settle(
        _ kind: Event.Kind = .consentRevoked,
        in store: StoreUnderTest,
        at now: Timestamp,
        startedAt: Timestamp = .start
    ) async throws -> Settled {
        let work = try await store.claimNotifications(at: now)
        return try await store.settle(.notification(work[0], .event(kind, at: Self.event)), at: now, startedAt: startedAt)
    }

    @Test(arguments: StoreKind.allCases, [Event.Kind.consentRevoked, .accountDeleted])
    func anEventWaitsForTheGrant(_ kind: StoreKind, _ event: Event.Kind) async throws {
        let store = try await story(kind)
        #expect(try await settle(event, in: store, at: Self.signIn) == .postponed)
        #expect(try await store.column("SELECT due_at FROM notification_queue") == [.at(Self.signIn + .seconds(1))])

        try await store.settleGrants(at: Self.signIn)
        #expect(try await settle(event, in: store, at: Self.signIn + .seconds(1)) == .notification(.stale))
        #expect(try await store.column("SELECT DISTINCT to_state FROM credential_change") == ["authorized"])
    }

    @Test(arguments: StoreKind.allCases)
    func inOneBatchTooAndInTheOtherOrder(_ kind: StoreKind) async throws {
        let store = try await story(kind)
        let (grant, event) = (try await store.claimGrants(at: Self.signIn)[0], try await store.claimNotifications(at: Self.signIn)[0])
        let batch = try await store.settle(
            [.notification(event, .event(.consentRevoked, at: Self.event)), .grant(grant, .acceptance(of: grant))],
            at: Self.signIn
        )
        #expect(batch.results == [.postponed, .grant(.applied, nil)])
        #expect(try await store.column("SELECT DISTINCT to_state FROM credential_change") == ["authorized"])
    }

    @Test(arguments: StoreKind.allCases)
    func forSixMinutesAtMost(_ kind: StoreKind) async throws {
        let store = try await story(kind)
        _ = try await store.claimGrants(at: Self.signIn)
        let end = Self.signIn + .minutes(6)
        #expect(try await settle(in: store, at: Self.signIn) == .postponed)
        #expect(try await settle(in: store, at: end - .milliseconds(1)) == .postponed)
        #expect(try await settle(in: store, at: end + .seconds(1)) == .notification(.applied))
        #expect(try await store.column("SELECT state FROM credential_state") == ["revoked"])
    }

    /// Behind an import of millions, or in a process that stood still: it has not come to its turn.
    @Test(arguments: StoreKind.allCases)
    func aGrantThatNobodyHasClaimedIsWaitedForHoweverLong(_ kind: StoreKind) async throws {
        let store = try await story(kind)
        let now = Self.signIn + .hours(1)
        #expect(try await settle(in: store, at: now) == .postponed)
        try await store.settleGrants(at: now)
        #expect(try await settle(in: store, at: now + .seconds(1)) == .notification(.stale))
        #expect(try await store.column("SELECT DISTINCT to_state FROM credential_change") == ["authorized"])
    }

    /// After an outage both queues are old; the grants have their six minutes all the same.
    @Test(arguments: StoreKind.allCases)
    func countedFromTheStartOfTheProcess(_ kind: StoreKind) async throws {
        let store = try await story(kind)
        _ = try await store.claimGrants(at: Self.signIn)
        let started = Self.signIn + .days(1)
        #expect(try await settle(in: store, at: started + .minutes(5), startedAt: started) == .postponed)
        #expect(try await settle(in: store, at: started + .minutes(6), startedAt: started) == .notification(.applied))
    }

    /// Someone set the clock back by a day: nothing waits for a day.
    @Test(arguments: StoreKind.allCases)
    func aStepOfTheClockDoesNotProlongIt(_ kind: StoreKind) async throws {
        let store = try await story(kind)
        _ = try await store.claimGrants(at: Self.signIn)
        let tomorrow = Self.signIn + .days(1)
        #expect(try await settle(in: store, at: Self.signIn + .minutes(6), startedAt: tomorrow) == .notification(.applied))
    }

    @Test(arguments: StoreKind.allCases)
    func whatCannotBeTakenIsNotWaitedFor(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(at: Self.signIn)
        let postponed = try await store.settleGrants(at: Self.signIn) { _ in .unknownClient(lookedAt: nil) }
        #expect(postponed == [.postponed])
        try await store.receive(at: Self.signIn)
        #expect(try await settle(in: store, at: Self.signIn) == .notification(.applied))
    }

    /// A code does not live long, so it counts as long as it is there.
    @Test(arguments: StoreKind.allCases)
    func aCodeIsWaitedFor(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(code: "c", at: Self.signIn)
        try await store.grant(nil, code: "nobody's", at: Self.signIn)
        try await store.receive(at: Self.signIn)
        #expect(try await settle(in: store, at: Self.signIn) == .postponed)
        try await store.run("DELETE FROM grant_queue WHERE user_id IS NOT NULL")
        #expect(try await settle(in: store, at: Self.signIn + .seconds(1)) == .notification(.applied))
    }

    @Test(arguments: StoreKind.allCases)
    func aGrantAtAnotherClientOfTheAppCounts(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(client: "web", at: Self.signIn)
        try await store.receive(at: Self.signIn)
        #expect(try await settle(in: store, at: Self.signIn) == .postponed)
    }

    @Test(arguments: StoreKind.allCases)
    func nothingElseIsWaitedFor(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant(at: Self.event - .milliseconds(1))
        try await store.grant("another", at: Self.signIn)
        try await store.grant(client: "elsewhere", at: Self.signIn)
        try await store.grant(client: "forgotten", at: Self.signIn)
        try await store.receive(at: Self.signIn)
        #expect(try await settle(in: store, at: Self.signIn) == .notification(.applied))
    }

    @Test(arguments: StoreKind.allCases, [Event.Kind.emailEnabled(nil), .emailDisabled(nil)])
    func mailNeedNotWait(_ kind: StoreKind, _ event: Event.Kind) async throws {
        #expect(try await settle(event, in: story(kind), at: Self.signIn) == .notification(.applied))
    }
}
