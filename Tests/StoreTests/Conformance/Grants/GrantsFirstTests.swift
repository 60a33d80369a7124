// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// siwatch never reports a user as revoked who has signed in again: an event waits for a newer sign-in in the queue.
@Suite(.schemas, .timeLimit(.minutes(10))) struct GrantsFirstTests {
    private static let event = Timestamp.start + .hours(1)
    private static let signIn = event + .seconds(1)

    /// A user who withdrew consent and gave it again, with both rows in their queues.
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

    /// Behind an import of millions, or in a process that stood still, siwatch has not come to the sign-in.
    @Test(arguments: StoreKind.allCases)
    func aGrantThatNobodyHasClaimedIsWaitedForHoweverLong(_ kind: StoreKind) async throws {
        let store = try await story(kind)
        let now = Self.signIn + .hours(1)
        #expect(try await settle(in: store, at: now) == .postponed)
        try await store.settleGrants(at: now)
        #expect(try await settle(in: store, at: now + .seconds(1)) == .notification(.stale))
        #expect(try await store.column("SELECT DISTINCT to_state FROM credential_change") == ["authorized"])
    }

    /// After an outage both queues are old. The grants still get their six minutes.
    @Test(arguments: StoreKind.allCases)
    func countedFromTheStartOfTheProcess(_ kind: StoreKind) async throws {
        let store = try await story(kind)
        _ = try await store.claimGrants(at: Self.signIn)
        let started = Self.signIn + .days(1)
        #expect(try await settle(in: store, at: started + .minutes(5), startedAt: started) == .postponed)
        #expect(try await settle(in: store, at: started + .minutes(6), startedAt: started) == .notification(.applied))
    }

    /// An operator set the clock back by a day. No event waits for a day.
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

    /// The clock of one of the backend's hosts is ahead, so its sign-ins wait for their time. A user who has come back there is not reported
    /// revoked in the meantime, if that takes minutes.
    @Test(arguments: StoreKind.allCases, [false, true])
    func aSignInWhoseTimeComesSoonIsWaitedFor(_ kind: StoreKind, isInOneBatch: Bool) async throws {
        for (wait, result) in [(Duration.minutes(6), Settled.postponed), (.minutes(6) + .milliseconds(1), .notification(.applied))] {
            let store = try await story(kind)
            let event = try await store.claimNotifications(at: Self.signIn)[0]
            let grant = try await store.claimGrants(at: Self.signIn)[0]
            let settlements = [
                Settlement.grant(grant, .inFuture(due: Self.signIn + wait, lookedAt: nil)),
                .notification(event, .event(.consentRevoked, at: Self.event)),
            ]
            let batches = isInOneBatch ? [settlements] : settlements.map { [$0] }
            var results: [Settled] = []
            for batch in batches { results += try await store.settle(batch, at: Self.signIn).results }
            #expect(results == [.postponed, result])
        }
    }

    /// A code lives only minutes, so it counts while its row is there.
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

    // MARK: Sign-ins of a dead process

    /// Claims sign-ins, and returns their users.
    private func claim(_ store: StoreUnderTest, upTo limit: Int, at now: Timestamp) async throws -> [String] {
        try await store.claimGrants(upTo: limit, at: now).compactMap { $0.content?.credential.userID }
    }

    /// An event waits six minutes for it, and an import may take longer.
    @Test(arguments: StoreKind.allCases)
    func aSignInThatWasClaimedBeforeGoesBeforeNewOnes(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant("lost")
        #expect(try await claim(store, upTo: 1, at: .start) == ["lost"])
        for number in 1...4 { try await store.grant("new \(number)") }
        let end = Timestamp.start + StoreUnderTest.lease
        #expect(try await claim(store, upTo: 1, at: end - .seconds(2)) == ["new 1"])
        #expect(try await claim(store, upTo: 2, at: end) == ["lost", "new 2"])
        #expect(try await claim(store, upTo: 100, at: end) == ["new 3", "new 4"])
    }

    /// A process dies with the sign-in, and the import takes longer than the event waits.
    @Test(arguments: StoreKind.allCases)
    func anImportTellsNobodyRevokedWhoHasSignedInAgain(_ kind: StoreKind) async throws {
        let store = try await story(kind)
        #expect(try await claim(store, upTo: 1, at: Self.signIn) == ["user"])
        for number in 1...20 { try await store.grant("import \(number)", at: Self.signIn) }
        var now = Self.signIn
        for _ in 1...10 {
            now = now + .seconds(60)
            let work = try await store.claimGrants(upTo: 2, at: now)
            _ = try await store.settle(work.map { .grant($0, .acceptance(of: $0)) }, at: now)
        }
        #expect(try await settle(in: store, at: now) == .notification(.stale))
        #expect(try await store.column("SELECT state FROM credential_state WHERE user_id = 'user'") == ["authorized"])
    }

    /// A start makes the rows due that waited for their client, and that may be millions.
    @Test(arguments: StoreKind.allCases)
    func aStartPutsThemBeforeThoseThatWaitedForTheirClient(_ kind: StoreKind) async throws {
        let store = try kind.make()
        try await store.grant("waits", client: "forgotten")
        try await store.settleGrants(at: .start) { _ in .unknownClient(lookedAt: .start) }
        try await store.grant("lost")
        #expect(try await claim(store, upTo: 1, at: .start) == ["lost"])
        let now = try store.restart(at: .start)
        try store.register("example", ["app", "web", "forgotten"])
        #expect(try await claim(store, upTo: 1, at: now) == ["lost"])
        // By then a claim has looked at all rows.
        #expect(try await claim(store, upTo: 1, at: now + .seconds(5)) == ["waits"])
    }

    /// Sign-ins that were put off go before new ones, too. Then they are not due for six hours.
    @Test(arguments: StoreKind.allCases)
    func thoseThatWaitForTheirClientHoldNewOnesUpOnce(_ kind: StoreKind) async throws {
        let store = try kind.make()
        for number in 1...3 { try await store.grant("waits \(number)", client: "forgotten") }
        try await store.settleGrants(at: .start) { _ in .unknownClient(lookedAt: .start) }
        let due = Timestamp.start + .hours(6)
        for number in 1...3 { try await store.grant("new \(number)", at: due) }
        var rounds: [[String]] = []
        while case let work = try await store.claimGrants(upTo: 2, at: due), !work.isEmpty {
            rounds.append(work.compactMap { $0.content?.credential.userID })
            let settlements = work.map { grant -> Settlement in
                let isKnown = grant.content?.credential.clientID == "app"
                return .grant(grant, isKnown ? .acceptance(of: grant) : .unknownClient(lookedAt: due))
            }
            _ = try await store.settle(settlements, at: due)
        }
        #expect(rounds == [["waits 1", "waits 2"], ["waits 3", "new 1"], ["new 2", "new 3"]])
        #expect(try await store.claimGrants(at: due + .hours(6) - .milliseconds(1)).isEmpty)
    }
}
