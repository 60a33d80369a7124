// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// siwatch never reports a user as revoked who has signed in again: an event waits for a newer sign-in in the queue.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct GrantsFirstTests: ConformanceSuite {
    private static let event = Timestamp.start + .hours(1)
    private static let signIn = event + .seconds(1)

    /// A user who withdrew consent and gave it again, with both rows in their queues.
    private func story() async throws {
        try await store.signIn(token: "old")
        try await store.grant(token: "new", at: Self.signIn)
        try await store.receive(at: Self.signIn)
    }

    private func settle(_ kind: Event.Kind = .consentRevoked, at now: Timestamp, startedAt: Timestamp = .start) async throws -> Settled {
        let work = try await store.claimNotifications(at: now)
        return try await store.settle(.notification(work[0], .event(kind, at: Self.event)), at: now, startedAt: startedAt)
    }

    @Test(arguments: [Event.Kind.consentRevoked, .accountDeleted]) func anEventWaitsForTheGrant(_ event: Event.Kind) async throws {
        try await story()
        #expect(try await settle(event, at: Self.signIn) == .postponed)
        #expect(try await store.column("SELECT due_at FROM notification_queue") == [.at(Self.signIn + .seconds(1))])

        try await store.settleGrants(at: Self.signIn)
        #expect(try await settle(event, at: Self.signIn + .seconds(1)) == .notification(.stale))
        #expect(try await store.column("SELECT DISTINCT to_state FROM credential_change") == ["authorized"])
    }

    @Test func inOneBatchTooAndInTheOtherOrder() async throws {
        try await story()
        let (grant, event) = (try await store.claimGrants(at: Self.signIn)[0], try await store.claimNotifications(at: Self.signIn)[0])
        let end = Settlement.notification(event, .event(.consentRevoked, at: Self.event))
        let batch = try await store.settle([end, .grant(grant, .acceptance(of: grant))], at: Self.signIn)
        #expect(batch.results == [.postponed, .grant(.applied, nil)])
        #expect(try await store.column("SELECT DISTINCT to_state FROM credential_change") == ["authorized"])
    }

    @Test func forSixMinutesAtMost() async throws {
        try await story()
        _ = try await store.claimGrants(at: Self.signIn)
        let end = Self.signIn + .minutes(6)
        #expect(try await settle(at: Self.signIn) == .postponed)
        #expect(try await settle(at: end - .milliseconds(1)) == .postponed)
        #expect(try await settle(at: end + .seconds(1)) == .notification(.applied))
        #expect(try await store.column("SELECT state FROM credential_state") == ["revoked"])
    }

    /// Behind an import of millions, or in a process that stood still, siwatch has not come to the sign-in.
    @Test func aGrantThatNobodyHasClaimedIsWaitedForHoweverLong() async throws {
        try await story()
        let now = Self.signIn + .hours(1)
        #expect(try await settle(at: now) == .postponed)
        try await store.settleGrants(at: now)
        #expect(try await settle(at: now + .seconds(1)) == .notification(.stale))
        #expect(try await store.column("SELECT DISTINCT to_state FROM credential_change") == ["authorized"])
    }

    /// After an outage both queues are old. The grants still get their six minutes.
    @Test func countedFromTheStartOfTheProcess() async throws {
        try await story()
        _ = try await store.claimGrants(at: Self.signIn)
        let started = Self.signIn + .days(1)
        #expect(try await settle(at: started + .minutes(5), startedAt: started) == .postponed)
        #expect(try await settle(at: started + .minutes(6), startedAt: started) == .notification(.applied))
    }

    @Test func aStepOfTheClockDoesNotProlongIt() async throws {
        try await story()
        _ = try await store.claimGrants(at: Self.signIn)
        let tomorrow = Self.signIn + .days(1)
        #expect(try await settle(at: Self.signIn + .minutes(6), startedAt: tomorrow) == .notification(.applied))
    }

    @Test func whatCannotBeTakenIsNotWaitedFor() async throws {
        try await store.grant(at: Self.signIn)
        let postponed = try await store.settleGrants(at: Self.signIn) { _ in .unknownClient(lookedAt: nil) }
        #expect(postponed == [.postponed])
        try await store.receive(at: Self.signIn)
        #expect(try await settle(at: Self.signIn) == .notification(.applied))
    }

    /// The clock of one of the backend's hosts is ahead, so its sign-ins wait for their time. A user who has come back there is not reported
    /// revoked in the meantime, if that takes minutes.
    @Test(arguments: [false, true]) func aSignInWhoseTimeComesSoonIsWaitedFor(isInOneBatch: Bool) async throws {
        for (wait, result) in [(Duration.minutes(6), Settled.postponed), (.minutes(6) + .milliseconds(1), .notification(.applied))] {
            try renew()
            try await story()
            let event = try await store.claimNotifications(at: Self.signIn)[0]
            let grant = try await store.claimGrants(at: Self.signIn)[0]
            let ahead = Settlement.grant(grant, .inFuture(due: Self.signIn + wait, lookedAt: nil))
            let end = Settlement.notification(event, .event(.consentRevoked, at: Self.event))
            let batches = isInOneBatch ? [[ahead, end]] : [[ahead], [end]]
            var results: [Settled] = []
            for batch in batches { results += try await store.settle(batch, at: Self.signIn).results }
            #expect(results == [.postponed, result])
        }
    }

    /// A code lives only minutes, so it counts while its row is there.
    @Test func aCodeIsWaitedFor() async throws {
        try await store.grant(code: "c", at: Self.signIn)
        try await store.grant(nil, code: "nobody's", at: Self.signIn)
        try await store.receive(at: Self.signIn)
        #expect(try await settle(at: Self.signIn) == .postponed)
        try await store.run("DELETE FROM grant_queue WHERE user_id IS NOT NULL")
        #expect(try await settle(at: Self.signIn + .seconds(1)) == .notification(.applied))
    }

    @Test func aGrantAtAnotherClientOfTheAppCounts() async throws {
        try await store.grant(client: "web", at: Self.signIn)
        try await store.receive(at: Self.signIn)
        #expect(try await settle(at: Self.signIn) == .postponed)
    }

    @Test func nothingElseIsWaitedFor() async throws {
        try await store.grant(at: Self.event - .milliseconds(1))
        try await store.grant("another", at: Self.signIn)
        try await store.grant(client: "elsewhere", at: Self.signIn)
        try await store.grant(client: "forgotten", at: Self.signIn)
        try await store.receive(at: Self.signIn)
        #expect(try await settle(at: Self.signIn) == .notification(.applied))
    }

    @Test(arguments: [Event.Kind.emailEnabled(nil), .emailDisabled(nil)]) func mailNeedNotWait(_ event: Event.Kind) async throws {
        try await story()
        #expect(try await settle(event, at: Self.signIn) == .notification(.applied))
    }

    // MARK: Sign-ins of a dead process

    private func claim(upTo limit: Int, at now: Timestamp) async throws -> [String] {
        try await store.claimGrants(upTo: limit, at: now).compactMap { $0.content?.credential.userID }
    }

    /// An event waits six minutes for it, and an import may take longer.
    @Test func aSignInThatWasClaimedBeforeGoesBeforeNewOnes() async throws {
        try await store.grant("lost")
        #expect(try await claim(upTo: 1, at: .start) == ["lost"])
        for number in 1...4 { try await store.grant("new \(number)") }
        let end = Timestamp.start + StoreUnderTest.lease
        #expect(try await claim(upTo: 1, at: end - .seconds(2)) == ["new 1"])
        #expect(try await claim(upTo: 2, at: end) == ["lost", "new 2"])
        #expect(try await claim(upTo: 100, at: end) == ["new 3", "new 4"])
    }

    /// A process dies with the sign-in, and the import takes longer than the event waits.
    @Test func anImportTellsNobodyRevokedWhoHasSignedInAgain() async throws {
        try await story()
        #expect(try await claim(upTo: 1, at: Self.signIn) == ["user"])
        for number in 1...20 { try await store.grant("import \(number)", at: Self.signIn) }
        var now = Self.signIn
        for _ in 1...10 {
            now = now + .seconds(60)
            let work = try await store.claimGrants(upTo: 2, at: now)
            _ = try await store.settle(work.map { .grant($0, .acceptance(of: $0)) }, at: now)
        }
        #expect(try await settle(at: now) == .notification(.stale))
        #expect(try await store.column("SELECT state FROM credential_state WHERE user_id = 'user'") == ["authorized"])
    }

    /// A start makes the rows due that waited for their client, and that may be millions.
    @Test func aStartPutsThemBeforeThoseThatWaitedForTheirClient() async throws {
        try await store.grant("waits", client: "forgotten")
        try await store.settleGrants(at: .start) { _ in .unknownClient(lookedAt: .start) }
        try await store.grant("lost")
        #expect(try await claim(upTo: 1, at: .start) == ["lost"])
        let now = try store.restart(at: .start)
        try store.register("example", ["app", "web", "forgotten"])
        #expect(try await claim(upTo: 1, at: now) == ["lost"])
        // By then a claim has looked at all rows.
        #expect(try await claim(upTo: 1, at: now + .seconds(5)) == ["waits"])
    }

    /// Sign-ins that were put off go before new ones, too. Then they are not due for six hours.
    @Test func thoseThatWaitForTheirClientHoldNewOnesUpOnce() async throws {
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
